#!/bin/bash
# lenet.sh - LeNet learns MNIST: every mode reaches 98 %; the whole recipe reaches 98.9 % in all of
# them, with no two far apart; and the published recipe gives the published result. Some minutes.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
need_mnist

at_least() # RUN ACCURACY
{
    awk -v a="$(of test_accuracy "$1")" -v b="$2" 'BEGIN { exit !(a >= b) }' ||
        fail "$1 ends with $(of test_accuracy "$1"), not $2"
}

near() # RUN...: accuracies within 0.3 points of each other
{
    local run all
    all=$(for run; do of test_accuracy "$run"; done)
    awk 'NR == 1 { lo = hi = $1 } { lo = $1 < lo ? $1 : lo; hi = $1 > hi ? $1 : hi }
        END { exit !(NR > 1 && hi - lo <= 0.003) }' <<<"$all" ||
        fail "accuracies differ by more than 0.3 points: $(tr '\n' ' ' <<<"$all")"
}

say() # RUN
{
    echo "# $1: $(of global_steps "$1") steps, $(of seconds "$1") s, accuracy $(of test_accuracy \
        "$1")"
}

# Two workers share the batch of one, so that a step is the same step; async makes steps of the
# half, at half the rate.
one=(--quiet --mode local)
two=(--quiet --hosts localhost:2 --global-batch 64)
declare -A how=([single]="${one[*]}" [sync]="${two[*]} --mode sync" \
    [allreduce]="${two[*]} --mode allreduce"
    [async]="--quiet --hosts localhost:2 --mode async --batch 32 --lr 0.01")
modes="single sync async allreduce"

for mode in $modes; do
    case_ "$mode reaches 98 %"
    # shellcheck disable=SC2086 # words
    expect_exit 0 yoke train lenet ${how[$mode]} --target-accuracy 0.98 --eval-every 6400ex \
        --epochs 10 --run "$mode-98"
    expect_same "$(of stop_reason "$mode-98")" target_accuracy
    at_least "$mode-98" 0.98
    say "$mode-98"
done
case_ "there, no two modes are more than 0.3 points apart"
near single-98 sync-98 async-98 allreduce-98

for mode in $modes; do
    case_ "the recipe of lenet.net, $mode: 98.9 %"
    schedule=''
    [ "$mode" != async ] || schedule="--schedule cosine:18750"
    # shellcheck disable=SC2086
    expect_exit 0 yoke train lenet ${how[$mode]} $schedule --eval-every 60000ex --epochs 10 \
        --run "$mode"
    at_least "$mode" 0.989
    say "$mode"
done
case_ "at the end, no two modes are more than 0.3 points apart"
near single sync async allreduce

case_ "the published course, lenet-report.net, ends at 96 % or more after 50 times 1,000 steps"
expect_exit 0 yoke train lenet-report --quiet --run report
expect_same "$(of global_steps report) $(of stop_reason report)" "50000 steps"
at_least report 0.96
say report
expect_nothing_left 2
