#!/bin/bash
# alexnet.sh - AlexNet's training step, 2 threads, against oneDNN's bare primitives and, with --torch, against PyTorch at its best.
#
#   BUILD=build bench/alexnet.sh [--torch] [ROUNDS]     5 rounds unless said otherwise
#   BATCH=4 STEPS=2 TURN=1 in the environment           another batch than 64, fewer steps a round than 20, shorter turns of --torch
#
# The bare primitives are every convolution, pooling and product of the step, forward and backward, each alone with the layouts it likes
# best (see alexnet.c). A round takes the best of three passes over them, in turns with the model's step in the same program, and
# then runs yoke's program on made-up images: there the images are made and loaded, gradients applied, and all steps count, the
# first too. Ratios are bare / yoke, medians of the rounds. PyTorch's part is peers/nets.py.
# Exit status 0 unless something is broken.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(cd "${BUILD:-build}" && pwd) || exit 1
torch=
[ "${1:-}" != --torch ] || { torch=yes; shift; }
rounds=${1:-5} batch=${BATCH:-64} steps=${STEPS:-20}
if ! [[ $rounds =~ ^[1-9][0-9]?$ && $batch =~ ^[1-9][0-9]{0,2}$ && $steps =~ ^[1-9][0-9]{0,2}$ ]]; then
    echo "usage: [BATCH=1..999] [STEPS=1..999] bench/alexnet.sh [--torch] [1..99]" >&2
    exit 2
fi
top=$PWD
tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-bench.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1
mkdir config
export XDG_CONFIG_HOME=$tmp/config LC_ALL=C

# json KEY: the first number under KEY in the last run's summary
json()
{
    sed -nE "s/^ *\"$1\": *([-0-9.e]*),?$/\1/p" summary | head -n 1
}

middle()
{
    sort -g "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# line LABEL FILE [RATIO'S FILE FLOOR]
line()
{
    awk -v label="$1" -v ms="$(middle "$2")" -v ratio="$([ $# -lt 3 ] || middle "$3")" -v least="${4:-}" 'BEGIN {
        printf "%-38s %9.1f", label, ms
        if (ratio != "")
            printf " %8.3f", ratio
        if (least != "")
            printf "  floor %-5s %s", least, (ratio >= least ? "ok" : "MISSED")
        print "" }'
}

for ((round = 0; round < rounds; round++)); do
    "$build/bench/alexnet" "$batch" 2 3 >pass 2>log || { cat log >&2; exit 1; }
    rm -rf run
    "$build/yoke" train alexnet --batch "$batch" --threads 2 --steps "$steps" --checkpoint-every "$steps" --run run --json --quiet \
        >summary 2>log || { cat log >&2; exit 1; }
    read -r _ _ bare model ratio <pass
    echo "$bare" >>bare
    echo "$model" >>model
    echo "$ratio" >>model.ratio
    whole=$(awk -v s="$(json steps_per_second)" 'BEGIN { print 1000 / s }')
    echo "$whole" >>whole
    echo "$bare $whole" | awk '{ print $1 / $2 }' >>whole.ratio
    for phase in input compute push wait; do
        awk -v s="$(json "$phase")" -v n="$steps" 'BEGIN { print 1000 * s / n }' >>"phase.$phase"
    done
    json peak_rss_bytes | awk '{ print $1 / 1e6 }' >>memory
done

# A floor is for the batch that it was meant for.
floor=0.9
[ "$batch" = 64 ] || floor=
echo "AlexNet, batch $batch, 2 threads: ms a step, against oneDNN's primitives alone; medians of $rounds rounds"
echo
printf '%-38s %9s %8s\n' "" ms ratio
line "bare primitives" bare
line "yoke, the model's step" model model.ratio
line "yoke, the program, $steps steps" whole whole.ratio $floor
for phase in input compute push wait; do
    line "  of that $phase" "phase.$phase"
done
printf '%-38s %9.0f MB\n' "peak memory" "$(middle memory)"
[ "$torch" ] || exit 0

echo
cd "$top" || exit 1
rm -rf "$tmp"
set -- /usr/lib/*/openblas-openmp
[ -e "$1/libblas.so.3" ] || { echo "bench: no OpenMP build of OpenBLAS; run 'tools/deps.sh peers'" >&2; exit 1; }
exec /usr/bin/python3 -B bench/peers/nets.py alexnet --yoke "$build/yoke" --openblas "$1" --rounds "$rounds" --batch "$batch" \
    ${TURN:+--seconds "$TURN"}
