#!/bin/sh
# check-files.sh - every file that a comment or a Markdown page names exists.
#
# A name is the end of a path of the tree, or a path from the folder of the file that names it:
# 'comm.h', 'strategy/server.c' and 'src/comm/mpi*.c' are all fine if there is such a file. Folders
# are looked up if their path starts at the root: 'src/data/rows'. Headers of other projects are
# known by an #include <...>. Examples are no names: 'x.c', 'x_test.c', 'my_layer.c',
# 'layer_NAME.c', 'tests/fuzz/NAME/'.
#
# The script reads the comments of src, cmd and include and all Markdown pages in the tree it is
# started in, except CHANGELOG.md, which may name files that are gone.
set -u

tree=$(find . \( -path ./build -o -path ./runs -o -path ./.git \) -prune -o -type f -print |
    sed 's|^\./||' | LC_ALL=C sort)
foreign=$(find src cmd include tests bench -name '*.[ch]' -exec \
    sed -n 's/^ *# *include *<\(.*\)>.*/\1/p' {} + 2>/dev/null | sort -u)
files=$(echo "$tree" | grep -E '^(src|cmd|include)/.*\.[ch]$|\.md$' |
    grep -vE '^CHANGELOG\.md$|^bench/results/')

# shellcheck disable=SC2086 # a list of words
awk -v tree="$tree" -v foreign="$foreign" '
    function know(path,   n, i, part, tail) { # a path, all its tails and all its folders
        n = split(path, part, "/")
        tail = ""
        for (i = n; i >= 1; i--) {
            tail = i == n ? part[i] : part[i] "/" tail
            known[tail]
        }
        while (sub("/[^/]*$", "", path))
            known[path]
    }
    function quoted(glob) { # as a regular expression
        gsub(/\./, "\\.", glob)
        gsub(/\*/, "[^/]*", glob)
        return "(^|/)" glob "$"
    }
    function exists(name,   i) {
        sub(/\/$/, "", name)
        if (name in known || folder name in known)
            return 1
        if (name !~ /[*[]/)
            return 0
        for (i = 1; i <= paths; i++)
            if (path[i] ~ quoted(name))
                return 1
        return 0
    }
    function look_for(name,   base) {
        sub(/^\.\//, "", name)
        base = name
        sub(/.*\//, "", base)
        if (base ~ /^(my|_|[a-z](_test)?\.[ch]$)/ || name ~ /[A-Z][A-Z].*\.[ch]$|\/[A-Z]+(\/|$)/)
            return # an example
        if (name ~ /^(in|out)\.[ch]$/)
            return # the channels or the height of a shape
        if (exists(name))
            return
        print FILENAME ":" FNR ": there is no \"" name "\""
        bad++
    }
    # Names end like sources and pages, or are folders below one of the root.
    function read(text,   name) {
        gsub(/[a-z]+:\/\/[^ )>]*/, "", text)
        while (match(text, /[A-Za-z0-9_*.\/[\]-]+/)) {
            name = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            sub(/^[[\/-]+/, "", name)
            sub(/[].]+$/, "", name)
            if (name ~ /\[/ && name !~ /\]/ && name ~ /\.\[ch$/)
                name = name "]"
            if (name ~ /[^.\/-]\.(c|h|\[ch\]|sh|awk|py|md)$/ && name !~ /^\.\.\//)
                look_for(name)
            else if (name ~ /^(src|cmd|include|tests|tools|bench|docs|examples)\/[a-z][^.]+$/)
                look_for(name)
        }
    }
    BEGIN {
        paths = split(tree, path, "\n")
        for (i = 1; i <= paths; i++)
            know(path[i])
        n = split(foreign, line, "\n")
        for (i = 1; i <= n; i++)
            know(line[i])
    }
    FNR == 1 {
        folder = FILENAME
        if (!sub("[^/]*$", "", folder))
            folder = ""
        inside = 0
    }
    FILENAME ~ /\.md$/ {
        read($0)
        next
    }
    { # the comments of a line, one after the other
        rest = $0
        while (rest != "") {
            if (inside) {
                end = index(rest, "*/")
                read(end ? substr(rest, 1, end - 1) : rest)
                rest = end ? substr(rest, end + 2) : ""
                inside = !end
            } else if ((start = index(rest, "/*"))) {
                rest = substr(rest, start + 2)
                inside = 1
            } else
                rest = ""
        }
    }
    END {
        if (bad) {
            print "check-files: " bad " names of files that do not exist"
            exit 1
        }
        print "ok check-files: " ARGC - 1 " files"
    }' $files
