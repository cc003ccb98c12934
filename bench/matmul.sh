#!/bin/bash
# matmul.sh - 'yoke matmul' against the multipliers: n = 8192 in one process and on 2 and 4 ranks of this machine.
#
#   BUILD=build bench/matmul.sh [ROUNDS]     3 rounds unless said otherwise; N=4096 in the environment: another size
#
# The baseline is bench/matmul (see its source): fused multiply-adds on registers, on all cores, measured in every round before the
# products. GFLOPS of a product are 2 n^3 / seconds, seconds from its start to the last tile, making the numbers included and checking
# not; how long the check takes is shown beside it. Ratios are medians of the rounds. Exit status 0 unless something is broken.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(cd "${BUILD:-build}" && pwd) || exit 1
rounds=${1:-3} n=${N:-8192}
if ! [[ $rounds =~ ^[1-9][0-9]?$ && $n =~ ^[1-9][0-9]{2,4}$ ]]; then
    echo "usage: [N=100..99999] bench/matmul.sh [1..99]" >&2
    exit 2
fi
tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-bench.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1
mkdir config
export XDG_CONFIG_HOME=$tmp/config LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

json() # KEY: of the last result
{
    sed -nE "s/^ *\"$1\": *([^,]*),?$/\1/p" result
}

median()
{
    sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

echo "matrix products, n = $n, against fused multiply-adds on registers"
for ((round = 0; round < rounds; round++)); do
    peak=$("$build/bench/matmul") || exit
    echo "$peak" >>peak
    for ranks in 1 2 4; do
        "$build/yoke" matmul --n "$n" --workers "$ranks" --json --quiet >result 2>log || { cat log >&2; exit 1; }
        [ "$(json verified)" = true ] || { echo "a product was not verified" >&2; exit 1; }
        json gflops >>"gflops.$ranks"
        json check_seconds >>"check.$ranks"
        echo "$(json gflops) $peak" | awk '{ print $1 / $2 }' >>"ratio.$ranks"
        json bytes_moved >"moved.$ranks"
        json bytes_planned >"planned.$ranks"
    done
done
printf '%-12s %10s %10s %-20s %10s %14s %14s\n' '' GFLOPS 'of peak' '' 'check, s' 'bytes moved' planned
printf '%-12s %10.1f\n' 'peak' "$(median <peak)"
for ranks in 1 2 4; do
    floor=0.85
    [ "$ranks" != 1 ] || floor=0.90
    awk -v ranks="$ranks" -v gflops="$(median <"gflops.$ranks")" -v ratio="$(median <"ratio.$ranks")" -v least="$floor" \
        -v check="$(median <"check.$ranks")" -v moved="$(cat "moved.$ranks")" -v planned="$(cat "planned.$ranks")" 'BEGIN {
        printf "%-12s %10.1f %10.3f floor %-5s %-8s %10.3f %14.0f %14.0f  %s\n", ranks " rank(s)", gflops, ratio, least,
            (ratio >= least ? "ok" : "MISSED"), check, moved, planned,
            (moved <= 1.05 * planned && moved >= 0.95 * planned ? "within 5 %: ok" : "within 5 %: MISSED") }'
done
