#!/bin/bash
# local.sh - '--data-local': every host of a testbed has files of its own, of other lengths, and
# trains on those alone. Every row counts once an epoch. Sync and all-reduce give the same bits with
# any owners, also when the run is resumed in the middle of an epoch. The loss of a host with its
# data ends the run; the loss of one of its two workers does not.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_root
need_command ip
need_command tc
need_command mpirun
unshare -n true 2>/dev/null || skip_all "needs namespaces"

for n in 1 2 3; do # one model, other rows: the same rows would have the same hash
    yoke data synth criteo --rows $((4000 * n)) --features 20000 --seed 5 -o all.libsvm --quiet
    tail -n $((3000 * n + 50)) all.libsvm >"part-n$n.libsvm" # 3050, 6050 and 9050 rows
done
rows=$((3050 + 6050 + 9050))
yoke data synth criteo --rows 2000 --features 20000 --seed 5 -o test.libsvm --quiet

local_run() # RUN ARGS...: workers on three hosts, two of them on n2
{
    local run=$1
    shift
    yoke testbed run --hosts 4 -- yoke train logreg --data "$PWD/part-%h.libsvm" --data-local \
        --hosts n1,n2,n3,n2 --run "$run" "$@"
}

of() # KEY RUN
{
    json "$1" "$2/summary.json"
}

case_ "each mode trains on every row once an epoch, and says who has how many"
for mode in sync async ssp allreduce; do
    expect_exit 0 local_run "$mode" --mode "$mode" --epochs 2 --test-data test.libsvm
    expect_same "$mode $(of examples "$mode") $(of stop_reason "$mode")" \
        "$mode $((2 * rows)) epochs"
    expect_err "3 hosts train on $rows rows of their own"
    expect_err "n1 +3050 rows, 1 worker"
    expect_err "n2 +6050 rows, 2 workers"
    expect_err "n3 +9050 rows, 1 worker"
done
each() # KEY RUN: of the workers, in one line
{
    sed -n '/"workers_detail"/,$p' "$2/summary.json" | sed -nE "s/^ *\"$1\": ([0-9]+),?$/\1/p" |
        tr '\n' ' '
}
expect_same "$(each examples sync)" "6100 6100 18100 6000 "
# how the two workers of n2 share its rows depends on timing
expect_same "$(each examples async | cut -d' ' -f1,3)" "6100 18100"
# With several owners a worker may ask one that has not yet learnt that the step is over. What the
# worker computes with such values is dropped and given out again, so the count is sure to be 0 only
# with one owner.
expect_same "$(of stale_dropped sync)" 0

case_ "sync and allreduce give the same bits with any number of owners, and say 'reproducible'"
expect_exit 0 local_run owners --mode sync --ps 2 --ps-hosts n0 --epochs 2 --quiet
expect_same "$(params_of allreduce)" "$(params_of sync)"
expect_same "$(params_of owners)" "$(params_of sync)"
expect_same "$(of reproducible sync) $(of reproducible async)" "true false"

case_ "a run goes on where its hosts were, in bits"
for mode in sync async; do
    expect_exit 0 local_run "half-$mode" --mode "$mode" --epochs 2 --steps 70 --quiet
    expect_exit 0 yoke testbed run --hosts 4 -- yoke train --resume "half-$mode" --epochs 2 --quiet
    expect_same "$(of examples "half-$mode")" $((2 * rows))
done
expect_same "$(params_of half-sync)" "$(params_of sync)"

case_ "... but not on other hosts, whose data are others"
expect_error 3 "has changed" yoke testbed run --hosts 4 -- yoke train --resume half-sync \
    --epochs 3 --hosts n3,n2,n2,n1 --quiet

case_ "dense sets too"
need_mnist
for mode in sync allreduce; do
    expect_exit 0 yoke testbed run --hosts 2 -- yoke train softmax --data mnist --data-local \
        --hosts n0,n1 --mode $mode --epochs 1 --quiet --run "dense-$mode"
    expect_same "$(of examples "dense-$mode")" 120000
done
expect_same "$(params_of dense-sync)" "$(params_of dense-allreduce)"

case_ "one of two workers of a host is lost: the other has its data; the last one's loss ends it"
# RUN RANK COMMAND...: kill the rank when the run has a checkpoint; its number is that of the
# testbed's processes
cat >kill.sh <<'K'
run=$1 rank=$2
shift 2
"$@" &
for ((i = 0; i < 2000; i++)); do
    compgen -G "$run/checkpoints/*.safetensors" >/dev/null && break
    sleep 0.01
done
kill -9 "$(sed -n "/\"rank\": $rank,/,/pid/s/.*\"pid\": \([0-9]*\).*/\1/p" "$run/ranks.json")"
wait $!
K
long=(--mode sync --data "$PWD/part-%h.libsvm" --data-local --hosts "n1,n2,n3,n2" \
    --checkpoint-every 20 --quiet)
expect_exit 0 yoke testbed run --hosts 4 -- bash kill.sh one 4 yoke train logreg "${long[@]}" \
    --epochs 12 --run one
expect_same "$(of examples one) $(of lost_workers one)" "$((12 * rows)) 1"
expect_exit 4 yoke testbed run --hosts 4 -- bash kill.sh last 1 yoke train logreg "${long[@]}" \
    --epochs 4000 --run last
expect_err "worker 0 is lost: .*; no other worker has its host's data"

case_ "what cannot be is refused"
expect_error 2 "holdout would leave test rows on every host" yoke train logreg --data all.libsvm \
    --data-local --holdout 0.1
expect_error 2 "shards divides one batch among all" yoke train logreg --data all.libsvm \
    --data-local --shards 4
expect_error 2 "replace may start the new worker on a host without" \
    yoke train logreg --data all.libsvm --data-local --on-worker-loss replace --hosts localhost:2
expect_error 3 "rank 1 on .*cannot open 'none-" yoke train logreg --data none-%h --data-local \
    --hosts localhost:2
