#!/bin/bash
# target.sh - how long yoke takes to a model state: test loss <= 0.35 on MNIST at batch 100 and rate 0.01, on two cores.
#
#   BUILD=build bench/target.sh [--runs N]
#
# Each run is the command a user types, in a folder of its own. Training counts evaluation, the run folder and the last
# checkpoint: wall_seconds - startup_seconds of --json. The way to the first step is told twice: as the program sees it, and
# from outside, where it is all that the process lived besides training (loading the program, opening the data, and its end).
# Medians of 9 runs.
# Exit status 0 unless a run fails or ends where no run should: speed is reported, not judged.
set -u
cd "$(dirname "$0")/.." || exit 1
yoke=$(cd "${BUILD:-build}" && pwd)/yoke || exit 1
runs=9
if [ $# = 2 ] && [ "$1" = --runs ] && [[ $2 =~ ^[1-9][0-9]{0,2}$ ]]; then
    runs=$2
elif [ $# != 0 ]; then
    echo "usage: bench/target.sh [--runs 1..999]" >&2
    exit 2
fi

tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-bench.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1
mkdir config
export XDG_CONFIG_HOME=$tmp/config LC_ALL=C # no yoke.ini of the user's
[ "$(nproc)" -le 2 ] || taskset -cp 0,1 $$ >/dev/null || exit 1

# json KEY: the scalar under KEY in the last run's summary
json()
{
    sed -nE "s/^  \"$1\": *\"?([^\",]*)\"?,?$/\1/p" summary
}

# middle FILE: the median, smallest and largest of a column of numbers
middle()
{
    sort -g "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'
}

# Run 0 warms the page cache and is not counted.
for i in $(seq 0 "$runs"); do
    start=${EPOCHREALTIME/./}
    "$yoke" train softmax --data mnist --batch 100 --lr 0.01 --target-loss 0.35 --run "run-$i" --json >summary 2>log || {
        cat log >&2
        exit 1
    }
    lived=$((${EPOCHREALTIME/./} - start))
    [ "$i" != 0 ] || continue
    train=$(echo "$(json wall_seconds) $(json startup_seconds)" | awk '{ print $1 - $2 }')
    echo "$train" >>train
    json startup_seconds >>inside
    echo "$lived $train" | awk '{ print $1 / 1e6 - $2 }' >>outside
    json peak_rss_bytes | awk '{ print $1 / 1e6 }' >>memory
    json global_steps >>steps
    json test_accuracy | awk '{ print $1 * 100 }' >>accuracy
    rm -rf "run-$i"
done

# line LABEL FILE UNIT DIGITS [REMARK]
line()
{
    local m least most
    read -r m least most <<<"$(middle "$2")"
    printf "%-38s %9.$4f %-3s  %.$4f .. %.$4f%s\n" "$1" "$m" "$3" "$least" "$most" "${5:+   $5}"
}

read -r startup _ <<<"$(middle outside)"
verdict=$(awk -v s="$startup" 'BEGIN { print s < 0.1 ? "ok" : "MISSED" }')
echo "time to test loss <= 0.35: softmax on mnist, batch 100, rate 0.01, $(nproc) cores; median and range of $runs runs"
echo
line "training, evaluation included" train s 3
line "start to first step, from outside" outside s 3 "floor 0.100  $verdict"
line "start to first step, from inside" inside s 3
line "peak memory" memory MB 1
line "steps" steps "" 0
line "test accuracy" accuracy % 2

# About 7,100 steps and 90.6 % are a property of the problem, not of the machine.
read -r steps _ <<<"$(middle steps)"
read -r accuracy _ <<<"$(middle accuracy)"
awk -v s="$steps" -v a="$accuracy" 'BEGIN { exit !(s >= 6600 && s <= 7600 && a >= 90 && a <= 91.2) }' || {
    echo "bench: another number of steps or accuracy than this problem has: something is wrong" >&2
    exit 1
}
