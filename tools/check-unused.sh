#!/bin/sh
# check-unused.sh OBJECT... - an external function or variable has a user outside its own file.
#
# The objects are those of the library and the program, as make builds them. A symbol that only its
# own file uses wants to be static, and one that nothing uses wants to go. The public functions of
# include/yoke.h are for others, and benchmarks and examples count as users. Tests do not: a symbol
# that is external only for them stands in tools/unused.txt, with the reason. An entry there that is
# not needed is an error too. The script looks at the tree it is started in.
set -u
allowed=tools/unused.txt

words() # FILES...: every name in them
{
    cat /dev/null "$@" 2>/dev/null | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u
}
users="main $(words include/yoke.h bench/*.[ch] examples/*.c)"
tests=$(words tests/*.h tests/*/*.[ch] src/*/*_test.c src/*/*/*_test.c)

# A symbol with a dot in its name is the compiler's own.
complaints=$(nm -A -P "$@" | awk -v users="$users" -v tests="$tests" -v allowed="$allowed" '
    function fill(set, text,   n, i, word) {
        n = split(text, word, /[ \n]+/)
        for (i = 1; i <= n; i++)
            set[word[i]]
    }
    BEGIN {
        fill(used, users)
        fill(tested, tests)
        while ((getline line <allowed) > 0) {
            number++
            if (line ~ /^(#|$)/)
                continue
            if (line !~ /^[a-z][a-z0-9_]* +[^ ]/)
                print allowed ":" number ": this line is not \"SYMBOL REASON\""
            split(line, word, " ")
            entry[word[1]] = number
        }
    }
    $3 ~ /^[TDBRVWGC]$/ && $2 !~ /\./ { home[$2] = $1 }
    $3 == "U" { used[$2] }
    END {
        for (symbol in home) {
            if (symbol in used)
                continue
            file = home[symbol]
            sub(/^(.*\/)?obj\//, "", file)
            sub(/\.o:$/, "", file)
            if (!(symbol in tested))
                print file ": no other file uses " symbol
            else if (!(symbol in entry))
                print file ": only tests use " symbol
            else
                delete entry[symbol]
        }
        for (symbol in entry)
            print allowed ":" entry[symbol] ": " symbol " needs no entry"
    }' | LC_ALL=C sort)

if [ -n "$complaints" ]; then
    echo "$complaints"
    echo "check-unused: $(echo "$complaints" | wc -l) complaints"
    exit 1
fi
echo "ok check-unused: $# objects"
