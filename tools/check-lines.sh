#!/bin/sh
# check-lines.sh - no line is wider than 100 columns, so that two files fit side by side.
#
# The rule is for C, shell, Python, awk, Makefile and Markdown. In Markdown only prose counts:
# tables, blocks of code and the blocks that bench/publish.sh writes are as wide as they have to be.
# Addresses of the web do not count, since they cannot be broken.
#
# A file of more than 600 lines gets a remark, which is not an error: it wants a second look, but a
# file that is split only to stay below a number is worse. The script looks at the tree it is
# started in.
set -u

files=$(find . \( -path ./build -o -path ./runs -o -path ./.git -o -path '*/corpus' \
    -o -path '*/golden' -o -path ./bench/results \) -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.sh' -o -name '*.awk' -o -name '*.py' -o -name '*.md' \
    -o -name Makefile -o -path ./.ci/run \) -print | LC_ALL=C sort)

# shellcheck disable=SC2086 # a list of words
LC_ALL=C awk '
    function end_of_file() {
        if (name !~ /\.md$/ && lines > 600)
            print "remark: " name " has " lines " lines; a file past 600 wants a second look"
    }
    function is_prose() { # whether a line of Markdown is; a block of code follows an empty line
        if ($0 ~ /^ *```/) {
            fenced = !fenced
            return 0
        }
        if ($0 ~ /^<!-- bench:/)
            published = 1
        else if ($0 ~ /^<!-- (end|\/bench)/)
            published = 0
        code = $0 ~ /^(    |\t)/ && (code || blank)
        blank = $0 ~ /^ *$/ && !code || blank && $0 ~ /^ *$/
        return !fenced && !published && !code && $0 !~ /^ *\|/
    }
    FNR == 1 {
        end_of_file()
        name = FILENAME
        sub("^\\./", "", name)
        fenced = published = code = 0
        blank = 1
    }
    { lines = FNR }
    FILENAME ~ /\.md$/ && !is_prose() { next }
    length($0) > 100 || /\t/ {
        text = $0
        gsub(/[\200-\277]/, "", text) # characters count, not bytes
        while (match(text, /\t/)) # a tab goes to the next column that 8 divides
            text = substr(text, 1, RSTART - 1) \
                substr("        ", 1, 8 - (RSTART - 1) % 8) substr(text, RSTART + 1)
        width = length(text)
        gsub(/[a-z]+:\/\/[^ )>"]*/, "", text)
        if (length(text) > 100) {
            print name ":" FNR ": " width " columns"
            bad++
        }
    }
    END {
        end_of_file()
        if (bad) {
            print "check-lines: " bad " lines are wider than 100 columns"
            exit 1
        }
        print "ok check-lines: " ARGC - 1 " files"
    }' $files
