#!/bin/sh
# check-tags.sh - a struct, union or enum tag has one meaning.
#
# A tag that starts with yk_ or yoke_ is defined once in src, cmd and include; any other tag belongs
# to its .c file, and only two headers must not define the same one. The script looks at the tree it
# is started in.
set -u

files=$(find src cmd include -name '*.[ch]' ! -name '*_test.c' 2>/dev/null | LC_ALL=C sort)
# shellcheck disable=SC2086 # a list of words
awk '
    /^ *(typedef +|static +|const +)*(struct|union|enum) +[A-Za-z_0-9]+ *\{/ {
        tag = $0
        sub(/^ *(typedef +|static +|const +)*(struct|union|enum) +/, "", tag)
        sub(/ *\{.*/, "", tag)
        if (tag !~ /^(yk|yoke)_/ && FILENAME !~ /\.h$/)
            next
        tags++
        here = FILENAME ":" FNR
        if (tag in place) {
            print here ": \"" tag "\" is defined here and in " place[tag]
            bad++
        } else
            place[tag] = here
    }
    END {
        if (bad) {
            print "check-tags: " bad " tags have two meanings"
            exit 1
        }
        print "ok check-tags: " tags + 0 " tags"
    }' $files
