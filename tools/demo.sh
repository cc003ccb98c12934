#!/bin/bash
# demo.sh - the show of 'make demo': the main job, then the five ways to train side by side.
#
#   tools/demo.sh YOKE
#
# Each run stops at a model state, test loss 0.35, so that their times can be compared: a global
# step is one batch in async and ssp, and one batch of every worker in sync and allreduce. Workers
# are threads of one process; runs go into ./runs as always.
set -u
yoke=$1

"$yoke" train softmax --data mnist --batch 100 --lr 0.01 --target-loss 0.35 || exit

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# json KEY: the first scalar under KEY in the last summary
json()
{
    sed -nE "s/^  \"$1\": *\"?([^\",]*)\"?,?$/\1/p" "$log" | head -n 1
}

echo
echo "the same model state, five ways: seconds to test loss 0.35 (steps taken)," \
    "batch 100 a worker, 1 thread each, $(nproc) cores"
echo
printf '%-12s %20s %20s %20s\n' mode "1 worker" "2 workers" "3 workers"
for mode in local sync async ssp allreduce; do
    printf '%-12s' "${mode/local/single}"
    for workers in 1 2 3; do
        if [ $mode = local ] && [ $workers != 1 ]; then
            printf ' %20s' -
            continue
        fi
        "$yoke" train softmax --mode $mode --workers $workers --batch 100 --lr 0.01 --threads 1 \
            --target-loss 0.35 --json --quiet >"$log" || { cat "$log"; exit 1; }
        printf ' %8.2f s (%7d)' "$(json target_seconds)" "$(json global_steps)"
    done
    echo
done
