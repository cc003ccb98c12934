#!/bin/bash
# publish.sh - copies the output of the benchmarks into the READMEs, so that no figure is typed.
#
#   BUILD=build bench/publish.sh    takes $BUILD/results into bench/results, then fills the READMEs
#   bench/publish.sh --check        changes nothing; 1 if a README says anything else
#
# Between two lines <!-- bench:NAME --> and <!-- /bench --> stand all of bench/results/NAME.*.md,
# one after the other; <!-- bench:NAME.avx2 --> takes that of one instruction set only, and
# "rows:REGEX" behind the name only those rows of tables whose first cell matches it. Where there is
# no result yet, the text stays as it is. Figures from a machine that was busy with other programs
# are not taken; the other results are, and the status is 1.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build} new=$(mktemp) || exit 1
trap 'rm -f "$new"' EXIT

check=
case $#:${1:-} in
0:) ;;
1:--check) check=yes ;;
*) echo "usage: bench/publish.sh [--check]" >&2; exit 2 ;;
esac

status=0
for file in "$build"/results/*.md; do
    if [ "$check" ] || [ ! -e "$file" ]; then
        continue
    elif grep -q 'TRUST NO FIGURE' "$file"; then
        echo "publish: ${file##*/} is not taken: others used the machine" >&2
        status=1
    else
        cp "$file" bench/results/ || exit
        echo "took ${file##*/}"
    fi
done
for readme in README.md bench/README.md; do
    awk -f bench/publish.awk "$readme" >"$new" || exit
    if cmp -s "$readme" "$new"; then
        continue
    elif [ "$check" ]; then
        diff -u "$readme" "$new" >&2
        echo "publish: $readme does not say what bench/results does; run bench/publish.sh" >&2
        status=1
    else
        cat "$new" >"$readme" && echo "filled $readme"
    fi
done
exit $status
