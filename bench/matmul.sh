#!/bin/bash
# matmul.sh - 'yoke matmul' against the multipliers: n = 8192 in one process and on 2 and 4 ranks of
# this machine.
#
#   BUILD=build bench/matmul.sh [ROUNDS]     3 rounds unless said otherwise
#   N=4096 in the environment                another size
#
# The baseline is bench/matmul (see its source): multiply-adds on registers, on all cores, measured
# in every round before the products. GFLOPS of a product are 2 n^3 / seconds, seconds from its
# start to the last tile, making the numbers included and checking not; how long the check takes is
# shown beside it. Ratios are medians of the rounds. The floors are meant for n = 8192 and judged
# there only. Exit status 0 unless something is broken.
. "$(dirname "$0")/lib.sh"
rounds=${1:-3} n=${N:-8192}
number ROUNDS "$rounds" 1 99
number N "$n" 100 99999
cd "$tmp" || exit 1

for ((round = 0; round < rounds; round++)); do
    "$build/bench/matmul" "$(nproc)" "$isa" >>peak || exit
    for ranks in 1 2 4; do
        must "$yoke" matmul --n "$n" --workers "$ranks" --json --quiet >summary
        grep -q '"verified": *true' summary || { echo "a product was not verified" >&2; exit 1; }
        json gflops >>"gflops.$ranks"
        json check_seconds >>"check.$ranks"
        json bytes_moved >"moved.$ranks"
        json bytes_planned >"planned.$ranks"
    done
done
{
    echo "Products of two $n x $n matrices; medians of $rounds rounds."
    head_ "" GFLOPS: "of peak:" floor "check, s:" "bytes moved:" planned: "within 5 %"
    row peak "$(figure 1 peak)" "" "" "" "" "" ""
    for ranks in 1 2 4; do
        floor=0.85
        [ "$ranks" != 1 ] || floor=0.9
        [ "$n" = 8192 ] || floor=-
        part=$(ratio "gflops.$ranks" peak)
        moved=$(cat "moved.$ranks") planned=$(cat "planned.$ranks")
        row "$ranks process$([ "$ranks" = 1 ] || echo es)" "$(figure 1 "gflops.$ranks")" \
            "$(digits 3 "$part")" "$(judge "$part" "$floor")" "$(figure 3 "check.$ranks")" \
            "$moved" "$planned" "$(awk -v a="$moved" -v b="$planned" 'BEGIN {
                print (a <= 1.05 * b && a >= 0.95 * b ? "kept" : "missed") }')"
    done
} | tables
