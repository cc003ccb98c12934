#!/bin/bash
# train.sh - several workers train, in threads and in processes that a yoke parent or mpirun
# started: the bits are the same where that is promised, every example counts once an epoch where it
# is not, and the counts of all workers add up.
# san-1: all of it, with 1 and 4 workers where the plain build also has 2 and 3
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
need_mnist
tool json_check events_reader
endless=100000000

# The last batch of an epoch is short: 60,000 = 85 * 700 + 500. Twelve shards can be shared by 1, 2,
# 3 and 4 workers.
same=(--global-batch 700 --shards 12 --threads 1 --epochs 2 --quiet)
counts=(1 2 3 4)
[ -z "$SANITIZED" ] || counts=(1 4)
expect_exit 0 yoke train softmax "${same[@]}" --run local
bits=$(params_of local)

n=0
same_bits() # COMMAND...: a run in the folder run-N that equals the local one
{
    n=$((n + 1))
    expect_exit 0 "$@" --run "run-$n"
    expect_same "$(params_of run-$n)" "$bits"
    expect_same "$(of global_steps run-$n) $(of examples run-$n) $(of reproducible run-$n)" \
        "172 120000 true"
    expect_no_err
}

case_ "the local run took every example, the last short batch too"
expect_same "$(of global_steps local) $(of examples local)" "172 120000"

for mode in "sync --ps 1" "sync --ps 2" allreduce; do
    case_ "threads, $mode: the bits of the local run with ${counts[*]} workers"
    for workers in "${counts[@]}"; do
        # shellcheck disable=SC2086 # words
        same_bits yoke train softmax "${same[@]}" --workers $workers --mode $mode
    done
    case_ "processes of a yoke parent, $mode: likewise"
    for workers in "${counts[@]}"; do
        [ "$mode $workers" != "sync --ps 2 1" ] || continue
        # shellcheck disable=SC2086
        same_bits yoke train softmax "${same[@]}" --hosts localhost:$workers --mode $mode
    done
    expect_nothing_left 2
done

case_ "processes of mpirun: likewise, and --workers need not be said"
same_bits direct 4 softmax "${same[@]}" --mode sync
same_bits direct 4 softmax "${same[@]}" --mode sync --ps 2 --workers 2
same_bits direct 3 softmax "${same[@]}" --mode allreduce
expect_nothing_left 2

case_ "one process more or less is another number of shards, unless it is said: other bits"
expect_exit 0 yoke train softmax --global-batch 700 --threads 1 --epochs 1 --quiet --workers 3 \
    --run three
expect_exit 0 yoke train softmax --global-batch 700 --threads 1 --epochs 1 --quiet --workers 4 \
    --run four
expect_same "$(of shards three) $(of shards four)" "3 4"
[ "$(params_of three)" != "$(params_of four)" ] ||
    fail "sums in another order, and the same bits: the comparisons above compare nothing"

adam=(--optimizer adam --schedule "warmup:40,cosine:150")
case_ "adam with a schedule: likewise"
expect_exit 0 yoke train softmax "${same[@]}" "${adam[@]}" --run adam
plain=$bits
bits=$(params_of adam)
[ "$bits" != "$plain" ] || fail "adam makes no difference"
same_bits yoke train softmax "${same[@]}" "${adam[@]}" --hosts localhost:3 --mode sync --ps 2
same_bits yoke train softmax "${same[@]}" "${adam[@]}" --hosts localhost:2 --mode allreduce

# A job that is killed as a whole leaves files in /dev/shm, which the next job removes.
kill_all()
{
    kill_processes
    await_end 5
    await 5 no_processes || fail "processes are left"
}

# after_kill NAME START -- RESUME...: killed after a checkpoint, and resumed, it ends with the bits
# of an undisturbed run
after_kill()
{
    local name=$1 start=() resume=() end
    shift
    while [ "$1" != -- ]; do
        start+=("$1")
        shift
    done
    shift
    resume=("$@")
    train_job "$name" --global-batch 60 --shards 12 --threads 1 "${adam[@]}" --steps $endless \
        --checkpoint-every 0.1s --eval-every 10000 "${start[@]}"
    kill_all
    end=$(($(checkpoints_of "$name" | tail -n 1 | tr -dc 0-9 | sed 's/^0*//') + 500))
    expect_exit 0 yoke train --resume "$name" --steps $end --quiet "${resume[@]}"
    expect_exit 0 yoke train softmax --global-batch 60 --shards 12 --threads 1 "${adam[@]}" \
        --steps $end --eval-every 10000 --run "$name.whole" --quiet
    expect_same "$(params_of "$name")" "$(params_of "$name.whole")"
    expect_same "$(of examples "$name")" "$(of examples "$name.whole")"
    expect_same "$(of test_loss "$name")" "$(of test_loss "$name.whole")"
}

case_ "all processes killed, resumed by more of them"
after_kill more --hosts localhost:2 --mode sync --ps 2 -- --hosts localhost:4 --ps 1
case_ "processes killed, resumed by threads"
after_kill inside --hosts localhost:3 --mode allreduce -- --workers 2
case_ "threads killed, resumed by processes, which also remove what the killed ones left"
after_kill outside --workers 3 --mode sync -- --hosts localhost:2
expect_nothing_left 2

case_ "a run that was moved into threads stays there, until it is moved again"
expect_exit 0 yoke train --resume outside --workers 3 --steps 1000000 --max-seconds 0.1 --json
expect_exit 0 yoke train --resume outside --max-seconds 0.1 --json
expect_same "$(json workers) $(grep -c '"pid"' outside/ranks.json) $(grep '"pid"' \
    outside/ranks.json | sort -u | wc -l)" "3 4 1"

# --- modes that promise no bits ---

counted() # RUN STEPS: everything once, and the ledger adds up
{
    local run=$1 sum
    expect_same "$(of global_steps "$run") $(of examples "$run") $(of stop_reason "$run")" \
        "$2 180000 epochs"
    expect_same "$(each examples "$run" | total)" 180000
    sum=$(each steps "$run" | total)
    expect_same "$(sed -n '/"workers_detail"/,$p' "$run/summary.json" | tr -d ' \n' |
        grep -oE '"histogram":\[[0-9,]*\]' | tr -dc '0-9,\n' |
        tr ',' '\n' | total)" "$sum"
    expect_same "$(of reproducible "$run")" false
}

uneven=(--batch 7000 --epochs 3 --threads 1 --quiet) # 9 parts an epoch, the last of them short
case_ "async: every example once an epoch, by one server and by two"
expect_exit 0 yoke train softmax "${uneven[@]}" --mode async --hosts localhost:3 --run async-1
counted async-1 27
expect_same "$(each steps async-1 | total)" 27
expect_exit 0 direct 5 softmax "${uneven[@]}" --mode async --ps 2 --workers 3 --run async-2
counted async-2 27

case_ "ssp: likewise"
expect_exit 0 yoke train softmax "${uneven[@]}" --mode ssp --staleness 1 --ps 2 \
    --hosts localhost:4 --run ssp-1
counted ssp-1 27

case_ "backup: likewise; a step takes two pushes, the last of an epoch one"
expect_exit 0 yoke train softmax "${uneven[@]}" --mode sync --backup 1 --hosts localhost:3 \
    --run backup-1
counted backup-1 15
expect_exit 0 yoke train softmax "${uneven[@]}" --mode sync --backup 2 --ps 2 --hosts localhost:4 \
    --run backup-2
counted backup-2 15

case_ "ssp with staleness 0 is lockstep: no worker is more than a batch ahead"
expect_exit 0 yoke train softmax --mode ssp --staleness 0 --hosts localhost:3 --batch 100 \
    --steps 1000 --threads 1 --quiet --run lockstep
expect_same "$(each steps lockstep | total)" 1000
expect test $(($(each steps lockstep | sort -n | tail -n 1) - $(each steps lockstep | sort -n |
    head -n 1))) -le 1

case_ "async stops at exactly the step it was told to"
expect_exit 0 yoke train softmax --mode async --hosts localhost:4 --batch 50 --steps 1237 \
    --threads 1 --quiet --run exact
expect_same "$(of global_steps exact) $(of examples exact) $(of stop_reason exact)" \
    "1237 61850 steps"

case_ "a target ends a job of processes at the step where it ends one of threads, with its bits"
for how in "--workers 2" "--hosts localhost:2 --ps 2"; do
    # shellcheck disable=SC2086
    expect_exit 0 yoke train softmax --mode sync $how --batch 100 --threads 1 --target-loss 0.6 \
        --quiet --run "aim-${how//[!a-z0-9]/}"
done
expect_same "$(of stop_reason aim-hostslocalhost2ps2)" target_loss
expect_same "$(of global_steps aim-hostslocalhost2ps2) $(params_of aim-hostslocalhost2ps2)" \
    "$(of global_steps aim-workers2) $(params_of aim-workers2)"
expect awk -v loss="$(of test_loss aim-workers2)" 'BEGIN { exit !(loss > 0.5 && loss <= 0.6) }'

case_ "a model that only the last step broke is no success in processes either"
for mode in sync async allreduce; do
    rm -rf broken
    expect_error 1 "training diverged: the test loss of step 4 is not a number" \
        yoke train softmax --lr 1e6 --optimizer momentum --l2 1e6 --steps 4 --checkpoint-every 1 \
        --run broken --quiet --threads 1 --mode $mode --hosts localhost:2
    expect test ! -e broken/summary.json
    expect test -z "$(find broken -name '*.tmp*' -o -name 'step-000000000004*')"
    expect_exit 0 yoke eval broken
done
expect_nothing_left 2

# --- output and files ---

case_ "--json prints one object, with a line for every worker, and nothing else"
expect_exit 0 yoke train softmax --mode async --hosts localhost:3 --steps 300 --threads 1 --json \
    --quiet --run said
expect_no_err
expect json_check workers_detail.2.phases.wait workers_detail.2.staleness.histogram.1 events \
    lost_workers params_xxh3 hosts.0 <"$OUT"
expect_same "$(json workers) $(json ps) $(json mode)" "3 1 async"
expect_same "$(tr -d ' \n' <said/ranks.json | grep -oE '"role":"[a-z]*"' | tr -dc 'a-z\n' |
    tr '\n' ' ')" "roleps roleworker roleworker roleworker "

case_ "the report names every worker and its share of the updates"
expect_exit 0 yoke train --resume said
expect_out '^done: 300 steps'
expect_same "$(grep -cE '^ +[0-2] +[^ ]+ +[0-9,]+ +[0-9.]+ ?%' "$OUT")" 3
expect_nothing_left 2

case_ "every rank has events of its own; what workers write is what the ledger says"
expect_same "$(find said/events -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' ')" \
    "ps-0 worker-0 worker-1 worker-2 "
expect_exit 0 events_reader said/events/ps-0/events.out.tfevents.*
expect_out '^scalar 300 test/loss '
for worker in 0 1 2; do
    expect_exit 0 events_reader said/events/worker-$worker/events.out.tfevents.*
    expect_out '^version brain.Event:2'
    expect_out '^scalar 300 [a-z_/]+ '
done
