#!/bin/bash
# faults.sh - workers, owners, mpirun and the yoke parent are killed, and workers are put to sleep,
# in the middle of a run: it goes on, or ends soon and says how to go on; nothing is counted twice,
# sync keeps its bits, and nothing is left behind.
# alone: it kills and waits, and a rank that gets no core for seconds looks dead
# san-1: losses of workers, which are borne, replaced, or end the job; with shorter runs
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
need_mnist
endless=100000000

# 6,000 steps of 60 examples are enough to be killed in the middle, and soon over. The first
# checkpoint comes at step 300.
epochs=6
[ -z "$SANITIZED" ] || epochs=4
short=(--threads 1 --epochs "$epochs" --checkpoint-every 300 --eval-every 2000)
exact=(--global-batch 60 --shards 12)
expect_exit 0 yoke train softmax "${short[@]}" "${exact[@]}" --quiet --run whole
bits=$(params_of whole)

# Everything was counted once.
expect_counted() # RUN
{
    expect_same "$(of examples "$1") $(of stop_reason "$1")" "$((epochs * 60000)) epochs"
}

# It ended as if nothing had happened.
expect_bits() # RUN
{
    expect_counted "$1"
    expect_same "$(params_of "$1")" "$bits"
}

# Stopped before its end, RUN goes on for STEPS more, and that is as if nothing had happened.
expect_bits_later() # RUN STEPS ARGS...
{
    local run=$1 end=$(($(of global_steps "$1") + $2))
    shift 2
    expect_exit 0 yoke train --resume "$run" --steps $end --quiet
    expect_exit 0 yoke train softmax --threads 1 --steps $end --eval-every 100000 "$@" --quiet \
        --run "$run.whole"
    expect_same "$(params_of "$run") $(of examples "$run")" \
        "$(params_of "$run.whole") $(of examples "$run.whole")"
}

# --- a worker dies, the others go on ---

survives() # RUN ARGS...: the loss of its worker 1
{
    local run=$1
    shift
    train_job "$run" "${short[@]}" --hosts localhost:3 "$@"
    kill_rank 9 "$run" worker 1
    ended_with 0
    expect_counted "$run"
    expect_event "$run" "worker 1 is lost: process [0-9]+ has ended; going on with 2"
    expect_same "$(of lost_workers "$run")" 1
    expect_err "^yoke: warning: step [0-9]+: worker 1 is lost"
    expect_same "$(each examples "$run" | total)" $((epochs * 60000))
    expect_nothing_left 2
}

for ps in 1 2; do
    case_ "sync, $ps owner(s): the others do its part, and the bits stay"
    survives sync-$ps --mode sync --ps $ps "${exact[@]}"
    expect_bits sync-$ps
done
case_ "async: the others go on"
survives async --mode async --batch 60 --ps 2
case_ "ssp: the others go on, and do not wait for it"
survives ssp --mode ssp --batch 60 --staleness 1
case_ "backup: the others go on, though none is left over"
survives backup --mode sync --batch 30 --backup 1

case_ "a worker dies when owner 0 has all of its push and owner 1 has none: both get the same step"
train_job lag --threads 1 --epochs 1 --checkpoint-every 200 --eval-every 1 "${exact[@]}" \
    --hosts localhost:3 --mode sync --ps 2
kill_rank STOP lag ps 1
sleep 0.2
kill_rank 9 lag worker 0
sleep 0.1
kill_rank CONT lag ps 1
ended_with 0
expect_event lag "worker 0 is lost"
expect_exit 0 yoke train softmax --threads 1 --epochs 1 --eval-every 1 "${exact[@]}" --quiet \
    --run lag.whole
expect_same "$(params_of lag) $(of test_loss lag)" \
    "$(params_of lag.whole) $(of test_loss lag.whole)"
expect_nothing_left 2

case_ "one worker after the other, until the last is alone"
train_job alone "${short[@]}" --hosts localhost:3 --mode sync "${exact[@]}"
kill_rank 9 alone worker 0
kill_rank 9 alone worker 2
ended_with 0
expect_bits alone
expect_same "$(of lost_workers alone)" 2
expect_event alone "worker 0 is lost"
expect_event alone "worker 2 is lost"

case_ "with backups and two owners, fewer are left than a step takes: the last does all parts"
train_job few "${short[@]}" --hosts localhost:3 --mode sync --backup 1 --batch 60 --ps 2
kill_rank 9 few worker 0
kill_rank 9 few worker 2
ended_with 0
expect_counted few
expect_same "$(of lost_workers few)" 2

case_ "... and without any the job is lost"
train_job nobody "${short[@]}" --hosts localhost:2 --mode async --batch 60 --epochs 1000
kill_rank 9 nobody worker 0
kill_rank 9 nobody worker 1
ended_with 4 10
expect_err "all workers are lost"
expect_err "^hint: .*yoke train --resume nobody"
expect_nothing_left 2

case_ "under an mpirun of the user's, if it has been told to bear a loss"
begin_job mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
    --mca orte_enable_recovery 1 -n 4 yoke train softmax --run direct "${short[@]}" "${exact[@]}" \
    --mode sync
await "$patience" has_checkpoint direct || fail "no checkpoint"
kill_rank 9 direct worker 1
await_end "$patience"
expect_bits direct
expect_event direct "worker 1 is lost"
expect_nothing_left 5

# --- or another one takes its place ---

log_says() # RUN REGEX
{
    grep -qE -- "$2" "$1/log.txt"
}

seconds_of() # RUN REGEX: when an event happened
{
    tr -d '\n' <"$1/summary.json" |
        grep -oE '"seconds": [0-9.e+-]+, *"step": [0-9]+, *"what": "[^"]*"' | grep -E -- "$2" |
        sed -nE '1s/"seconds": ([0-9.e+-]+),.*/\1/p'
}

replaces() # RUN ARGS...: its worker 0 by a new process
{
    local run=$1 old steps
    shift
    train_job "$run" "${short[@]}" --hosts localhost:3 --on-worker-loss replace "$@"
    old=$(rank_pid "$run" worker 0)
    kill_rank 9 "$run" worker 0
    ended_with 0
    expect_event "$run" "worker 0 is lost: process $old has ended"
    expect_event "$run" "worker 0 is replaced by process [0-9]+"
    expect awk -v from="$(seconds_of "$run" "worker 0 is lost")" \
        -v to="$(seconds_of "$run" "is replaced")" \
        'BEGIN { exit !(to >= from && to - from < 20) }' \
        # soon, on a machine that may stop for seconds
    [ "$(rank_pid "$run" worker 0)" != "$old" ] || fail "ranks.json still names the old process"
    steps=$(events_in "$run" | wc -l)
    expect_same "$steps $(of lost_workers "$run")" "2 1"
    expect_counted "$run"
    expect_nothing_left 2
}

case_ "replace: a new worker, in sync with the same bits"
replaces new-sync --mode sync --ps 2 "${exact[@]}"
expect_bits new-sync
expect_same "$(grep -c '"alive": true' new-sync/summary.json)" 3

case_ "replace, async: the new one works"
replaces new-async --mode async --batch 60 --ps 2
expect test "$(each steps new-async | head -n 1)" -gt 0

case_ "the new worker of a resumed run has its options from the run, and none from a yoke.ini"
echo 'momentum = 0.5' >yoke.ini # sgd has none; in a yoke.ini that is no mistake
expect_exit 0 yoke train softmax "${short[@]}" "${exact[@]}" --steps 600 --mode sync \
    --hosts localhost:2 --on-worker-loss replace --quiet --run told
printf 'seed = 7\nshuffle-buffer = 500\nneither one nor the other\n' >yoke.ini
went_on() # the run is past the step it was resumed at; this starts no process
{
    local file newest
    for file in told/checkpoints/*.safetensors; do
        newest=$file
    done
    [ "$newest" != told/checkpoints/step-000000000600.safetensors ]
}
begin_job yoke train --resume told --epochs "$epochs" --quiet
await "$patience" went_on || fail "it does not go on"
kill_rank 9 told worker 1
ended_with 0
rm yoke.ini
expect_event told "worker 1 is replaced by process [0-9]+"
expect_same "$(of lost_workers told)" 1
expect test "$(each steps told | tail -n 1)" -gt 0
expect_bits told

# --- or the job ends ---

case_ "two at once: both are replaced"
train_job both "${short[@]}" --epochs 1000 --hosts localhost:4 --mode sync "${exact[@]}" \
    --on-worker-loss replace
find_rank both worker 0
first=$rank
find_rank both worker 2
kill -9 "$first" "$rank"
replaced_both()
{
    log_says both "worker 0 is replaced" && log_says both "worker 2 is replaced"
}
await 10 replaced_both || fail "not both are replaced"
kill -TERM "$pid"
ended_with 143
expect_same "$(of lost_workers both)" 2
expect_nothing_left 2
expect_bits_later both 500 "${exact[@]}"

# The moment: mpirun has started the new process, and all survivors wait for it inside MPI. It is
# stopped there until another one is dead. On a busy machine survivors may be late for their
# meeting, and the job goes on without a new process: then there is another try.
new_process() # mpirun has started another one, which is $newcomer; or the job is over
{
    local one all=''
    newcomer=''
    read -r all 2>/dev/null <"/proc/$launcher/task/$launcher/children"
    for one in $all; do
        if [[ " $known " != *" $one "* ]]; then
            newcomer=$one
            return 0
        fi
    done
    is_gone "$pid"
}

case_ "a second loss while the first is replaced ends the job, and it goes on with the same bits"
for try in 1 2 3 4 5; do
    run=second-$try
    train_job "$run" "${short[@]}" --hosts localhost:3 --mode sync "${exact[@]}" \
        --on-worker-loss replace
    launcher=$(children "$pid" mpirun)
    read -r known <"/proc/$launcher/task/$launcher/children"
    find_rank "$run" worker 2
    other=$rank
    kill_rank 9 "$run" worker 0
    await "$patience" new_process
    [ -z "$newcomer" ] || break
    await_end "$patience"
done
if [ -n "$newcomer" ]; then
    kill -STOP "$newcomer"
    kill -9 "$other"
    kill -CONT "$newcomer"
else
    fail "no process was started in the place of worker 0, five times"
fi
ended_with 4 30
expect_err "worker 0 cannot be replaced: MPI hangs while it replaces rank 1"
expect_err "^hint: .*yoke train --resume $run"
expect_no_out
expect_nothing_left 2
expect_exit 0 yoke train --resume "$run" --quiet
expect_bits "$run"

case_ "stopped by Ctrl-C in the middle of a long step, and a worker dies: it ends all the same"
train_job long --threads 1 --epochs 3000 --checkpoint-every 3 --hosts localhost:3 --mode sync \
    --batch 20000 --heartbeat 20
kill_rank STOP long worker 1
kill_rank STOP long worker 2
sleep 0.5
kill -INT "$pid"
sleep 0.5
kill_rank 9 long worker 2
kill_rank CONT long worker 1
ended_with 130 10
expect_nothing_left 2
expect_bits_later long 2 --global-batch 60000 --shards 3

case_ "fail: status 4, and the command that goes on"
train_job failing "${short[@]}" --hosts localhost:3 --mode sync "${exact[@]}" --on-worker-loss fail
kill_rank 9 failing worker 2
ended_with 4 10
expect_err "^yoke: worker 2 is lost"
expect_err "^hint: .*yoke train --resume failing"
expect_no_out
expect test ! -e failing/summary.json
expect_nothing_left 2
expect_exit 0 yoke train --resume failing --quiet
expect_bits failing

[ -z "$SANITIZED" ] || exit 0

# Its parameters are two ranges that an owner applies apart.
printf '%s\n' 'net wide' 'input 28x28x1' 'dense 800' 'relu' 'dense 10' 'softmax' >wide.net
wide=(wide.net --data mnist --engine lanes --threads 1 --global-batch 48 --shards 3 --lr 0.05 \
    --eval-every 100000)
case_ "fail, in the middle of a step of which a part has been applied: nothing of it is saved"
for n in 1 2 3 4; do
    begin_job yoke train "${wide[@]}" --run "wide-$n" --steps $endless --checkpoint-every 10 \
        --hosts localhost:3 --mode sync --on-worker-loss fail
    await "$patience" has_checkpoint "wide-$n" ||
        fail "no checkpoint of 'wide-$n' within $patience s"
    read -rt "0.$((RANDOM % 5))" -u "$silence"
    kill_rank 9 "wide-$n" worker 1
    ended_with 4 10
    step=$(checkpoints_of "wide-$n" | tail -n 1 | tr -dc 0-9 | sed 's/^0*//')
    expect_exit 0 yoke train --resume "wide-$n" --steps $((step + 3)) --quiet
    expect_exit 0 yoke train "${wide[@]}" --steps $((step + 3)) --quiet --run "wide-$n.whole"
    expect_same "$(params_of "wide-$n")" "$(params_of "wide-$n.whole")"
    rm -rf "wide-$n" "wide-$n.whole"
done
expect_nothing_left 2

case_ "restart: from the checkpoint, by itself"
train_job again "${short[@]}" --hosts localhost:3 --mode sync "${exact[@]}" --on-worker-loss restart
kill_rank 9 again worker 0
ended_with 0
expect_bits again
expect_same "$(of restarts again)" 1
expect_err "restart 1 of 3"
expect_nothing_left 2

for who in "ps 0" "ps 1"; do
    case_ "owner ${who#* } dies: the job ends within 10 s, and can be resumed"
    run=owner-${who#* }
    train_job "$run" "${short[@]}" --hosts localhost:2 --mode sync --ps 2 "${exact[@]}"
    # shellcheck disable=SC2086 # words
    kill_rank 9 "$run" $who
    ended_with 4 10
    expect_err "owner ${who#* } is lost"
    expect_err "^hint: .*yoke train --resume $run"
    expect_nothing_left 2
    expect_exit 0 yoke train --resume "$run" --quiet
    expect_bits "$run"
done

case_ "all-reduce: every worker is an owner; --restarts does it"
train_job ring "${short[@]}" --hosts localhost:3 --mode allreduce "${exact[@]}" --restarts 2
kill_rank 9 ring worker 1
ended_with 0
expect_bits ring
expect_same "$(of restarts ring)" 1
expect_nothing_left 2

has_other_owner() # PID: another process than that is owner 0 of `stuck`
{
    local rank
    find_rank stuck ps 0
    [ -n "$rank" ] && [ "$rank" != "$1" ]
}

case_ "a fault that repeats before there is a new checkpoint ends it, though restarts are left"
train_job stuck --threads 1 --steps $endless --checkpoint-every 3000 --eval-every 100000 \
    --batch 20 --hosts localhost:2 --mode sync --restarts 9
for _ in 1 2 3; do
    owner=$(rank_pid stuck ps 0)
    kill -9 "$owner"
    await 10 has_other_owner "$owner" || is_gone "$pid" || fail "no new owner"
done
ended_with 4 10
expect_err "giving up: .*second time in a row without a checkpoint"
expect_same "$(grep -c 'warning: restart ' "$ERR")" 2
expect_err "^hint: .*yoke train --resume stuck"
expect_nothing_left 2

# --- a worker sleeps ---

checked_steps() # RUN: the step of its last check
{
    sed -nE 's/^\{"step":([0-9]+),.*/\1/p' "$1/metrics.jsonl" | tail -n 1
}

case_ "stopped for longer than the heartbeat it is lost; when it wakes it leaves, and does no harm"
train_job asleep "${short[@]}" --hosts localhost:3 --mode sync --ps 2 "${exact[@]}" --heartbeat 1
sleeper=$(rank_pid asleep worker 1)
kill -STOP "$sleeper"
await 10 log_says asleep "worker 1 is lost: nothing heard" || fail "its silence is not noticed"
kill -CONT "$sleeper"
await 5 is_gone "$sleeper" || fail "it has woken and does not leave"
ended_with 0
expect_bits asleep
expect_event asleep "worker 1 is lost: nothing heard for 1\.[0-9] s"
expect_nothing_left 2

case_ "likewise in async, where it comes back with a push in its hands"
train_job dream "${short[@]}" --hosts localhost:3 --mode async --batch 60 --epochs 16 \
    --heartbeat 0.5
sleeper=$(rank_pid dream worker 0)
kill -STOP "$sleeper"
await 10 log_says dream "worker 0 is lost: nothing heard" || fail "its silence is not noticed"
kill -CONT "$sleeper"
await 5 is_gone "$sleeper" || fail "it has woken and does not leave"
ended_with 0
expect_same "$(of examples dream) $(each examples dream | total)" "960000 960000"

case_ "if it never wakes, the job ends without it, and takes it along"
train_job coma "${short[@]}" --hosts localhost:3 --mode sync "${exact[@]}" --heartbeat 0.5
kill_rank STOP coma worker 2
ended_with 0
expect_bits coma
expect_nothing_left 2

case_ "stopped for less than the heartbeat it only pauses"
train_job pause "${short[@]}" --hosts localhost:3 --mode sync "${exact[@]}" --heartbeat 20
kill_rank STOP pause worker 1
sleep 1
kill_rank CONT pause worker 1
ended_with 0
expect_bits pause
expect_same "$(of lost_workers pause) $(events_in pause)" "0 "
expect_nothing_left 2

# gets_on RUN: 200 steps further, and has 40 s for them; stands RUN: no further in a second
gets_on()
{
    local to=$(($(checked_steps "$1") + 200))
    await 40 is_past "$1" $to || fail "'$1' does not get on"
}

is_past() # RUN STEP
{
    [ "$(checked_steps "$1")" -ge "$2" ]
}

stands()
{
    local from
    from=$(checked_steps "$1")
    sleep 1
    [ "$(checked_steps "$1")" = "$from" ]
}

case_ "with a backup the others need not wait for one that sleeps"
train_job spare --threads 1 --epochs 1000 --checkpoint-every 300 --eval-every 100 \
    --hosts localhost:3 --mode sync --batch 30 --backup 1 --heartbeat 60
kill_rank STOP spare worker 1
gets_on spare
kill_rank CONT spare worker 1
kill -TERM "$pid"
ended_with 143
expect_same "$(of lost_workers spare)" 0

case_ "async waits for no worker: the others go on, and its push is counted when it wakes"
train_job drowsy --threads 1 --epochs 10000 --checkpoint-every 300 --eval-every 100 \
    --hosts localhost:3 --mode async --batch 600 --heartbeat 60
kill_rank STOP drowsy worker 1
gets_on drowsy # far more than an epoch
kill_rank CONT drowsy worker 1
kill -TERM "$pid"
ended_with 143
expect_same "$(of lost_workers drowsy)" 0
expect_same "$(each examples drowsy | total)" "$(of examples drowsy)"
expect_nothing_left 2

case_ "with ssp they do, as soon as they are so far ahead"
train_job bound --threads 1 --epochs 1000 --checkpoint-every 300 --eval-every 100 \
    --hosts localhost:3 --mode ssp --staleness 2 --batch 60 --heartbeat 60
kill_rank STOP bound worker 1
await 20 stands bound || fail "they do not wait"
expect stands bound
kill_rank CONT bound worker 1
kill -TERM "$pid"
ended_with 143
expect_nothing_left 2

# --- mpirun, and the parent ---

case_ "mpirun is killed: all ranks end, and the run can be resumed"
train_job headless "${short[@]}" --hosts localhost:3 --mode sync "${exact[@]}"
kill -9 "$(children "$pid" mpirun)"
ended_with 4 5
expect_err "mpirun was ended by signal 9"
expect_err "^hint: .*yoke train --resume headless"
expect_nothing_left 2
expect_exit 0 yoke train --resume headless --quiet
expect_bits headless

case_ "the parent is killed: mpirun and all ranks end, and the run can be resumed"
train_job orphan "${short[@]}" --hosts localhost:3 --mode sync "${exact[@]}"
kill -9 "$pid"
ended_with 137 2
expect_nothing_left 2
expect_exit 0 yoke train --resume orphan --quiet
expect_bits orphan
expect_nothing_left 2
