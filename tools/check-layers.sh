#!/bin/sh
# check-layers.sh - an include may only point to a lower layer, or stay in its own folder.
#
# The order below is the one in ARCHITECTURE.md; folders on one line are siblings and do not know
# each other. Three libraries are also kept behind one wrapper each: mpi.h in src/comm/mpi*.c,
# dnnl.h in src/kernel/onednn*.[ch] (and the benchmarks), turbojpeg.h in src/data/images/jpeg.c. The
# script looks at the tree it is started in.
set -u

order='
base
kernel data param comm record
model optim
strategy
train
launch testbed matmul netcheck
cmd
'

files=$(find src cmd include -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)
# shellcheck disable=SC2086 # a list of words
awk -v order="$order" '
    function complain(what) {
        print FILENAME ":" FNR ": " what
        bad++
    }
    BEGIN {
        n = split(order, line, "\n")
        for (i = 1; i <= n; i++) {
            m = split(line[i], folder, " ")
            for (j = 1; j <= m; j++)
                rank[folder[j]] = i
        }
    }
    FNR == 1 {
        split(FILENAME, part, "/")
        from = part[1] == "src" ? part[2] : part[1]
        rank["include"] = n + 1 # the public header stands alone: users have no other header
        if (!(from in rank))
            complain("folder \"" from "\" is in no layer; name it in tools/check-layers.sh")
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, quoted, "\"")
        if (split(quoted[2], part, "/") < 2)
            next
        to = part[1] == "src" ? part[2] : part[1]
        if (to == "tests" && FILENAME ~ /_test\.c$/)
            next # helpers for tests, which no other file may use
        if (from == "include")
            complain("the public header includes \"" quoted[2] "\"")
        else if (!(to in rank))
            complain("\"" quoted[2] "\" is in no layer")
        else if (to != from && rank[to] > rank[from])
            complain("\"" quoted[2] "\" is an upward include: " from " is below " to)
        else if (to != from && rank[to] == rank[from])
            complain("\"" quoted[2] "\" is a sideways include: " from " and " to " are siblings")
    }
    /^[ \t]*#[ \t]*include[ \t]*[<"](.*\/)?mpi\.h[>"]/ && FILENAME !~ /^src\/comm\/mpi[^\/]*\.c$/ {
        complain("mpi.h belongs in src/comm/mpi*.c only")
    }
    /^[ \t]*#[ \t]*include[ \t]*[<"](.*\/)?dnnl\.h[>"]/ &&
    FILENAME !~ /^src\/kernel\/onednn[^\/]*\.[ch]$/ {
        complain("dnnl.h belongs in src/kernel/onednn*.[ch] only")
    }
    /^[ \t]*#[ \t]*include[ \t]*[<"](.*\/)?turbojpeg\.h[>"]/ &&
    FILENAME != "src/data/images/jpeg.c" {
        complain("turbojpeg.h belongs in src/data/images/jpeg.c only")
    }
    END {
        if (bad) {
            print "check-layers: " bad " includes point the wrong way"
            exit 1
        }
        print "ok check-layers: " ARGC - 1 " files"
    }' $files
