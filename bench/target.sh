#!/bin/bash
# target.sh - how long yoke takes to a model state, by the commands that a user types, on two cores:
# softmax on MNIST to a test loss of 0.35 at batch 100 and rate 0.01, and LeNet by its own recipe,
# `yoke train lenet`.
#
#   BUILD=build bench/target.sh [RUNS]     9 runs unless said otherwise, of LeNet at most 3
#   STEPS=20 in the environment            of LeNet, instead of its recipe's
#
# Each run is in a folder of its own. Training counts evaluation, the run folder and the last
# checkpoint: wall_seconds - startup_seconds of --json. The time to the first step is shown twice:
# as the program sees it, and from outside, as the whole life of the process less its training
# (loading the program, opening the data, and its end). Medians and ranges. Exit status 0 unless a
# run fails or ends where no run should: speed is reported, not judged.
. "$(dirname "$0")/lib.sh"
runs=${1:-9}
number RUNS "$runs" 1 999
number STEPS "${STEPS:-1}" 1 99999
cd "$tmp" || exit 1
[ "$(nproc)" -le 2 ] || taskset -cp 0,1 $$ >/dev/null || exit 1

# measure NAME RUNS ARGUMENTS...: the figures of so many runs, into files that begin with NAME. One
# more warms up.
measure()
{
    local name=$1 runs=$2 i start lived train
    shift 2
    for ((i = 0; i <= runs; i++)); do
        start=${EPOCHREALTIME/./}
        must "$yoke" train "$@" --isa "$isa" --run run --json >summary
        lived=$((${EPOCHREALTIME/./} - start))
        rm -rf run
        [ "$i" != 0 ] || continue
        train=$(calc "$(json wall_seconds) - $(json startup_seconds)")
        echo "$train" >>"$name.train"
        json startup_seconds >>"$name.inside"
        calc "$lived / 1e6 - $train" >>"$name.outside"
        calc "$(json peak_rss_bytes) / 1e6" >>"$name.memory"
        json global_steps >>"$name.steps"
        calc "$(json test_accuracy) * 100" >>"$name.accuracy"
    done
}

# line LABEL FILE DIGITS UNIT [FLOOR]
line()
{
    local least most
    least=$(sort -g "$2" | head -n 1) most=$(sort -g "$2" | tail -n 1)
    row "$1" "$(figure "$3" "$2")" "$4" "$(digits "$3" "$least" "$most" | sed 's/ / to /')" \
        "$(judge "$(middle "$2")" "${5:--}" most)"
}

# show NAME [FLOOR OF THE START]
show()
{
    head_ "" median: unit range floor
    line "training, evaluation included" "$1.train" 3 s
    line "start to first step, from outside" "$1.outside" 3 s "${2:--}"
    line "start to first step, from inside" "$1.inside" 3 s
    line "peak memory" "$1.memory" 1 MB
    line "steps" "$1.steps" 0 ""
    line "test accuracy" "$1.accuracy" 2 %
}

measure softmax "$runs" softmax --data mnist --batch 100 --lr 0.01 --target-loss 0.35
few=$((runs < 3 ? runs : 3))
measure lenet "$few" lenet ${STEPS:+--steps "$STEPS"}
{
    echo "Softmax on MNIST to test loss 0.35, batch 100, rate 0.01; $runs runs."
    show softmax 0.1
    echo
    echo "\`yoke train lenet${STEPS:+ --steps $STEPS}\`; $few runs."
    show lenet
} | tables

# About 7,100 steps and 90.6 % are a property of the problem, not of the machine.
awk -v s="$(middle softmax.steps)" -v a="$(middle softmax.accuracy)" 'BEGIN {
    exit !(s >= 6600 && s <= 7600 && a >= 90 && a <= 91.2) }' || {
    echo "bench: another number of steps or accuracy than this problem has: something is wrong" >&2
    exit 1
}
