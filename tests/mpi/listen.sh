#!/bin/bash
# listen.sh - strangers hardly reach a job: on one host no rank listens on any port, unless workers
# are to be replaced; and if a stranger connects to such a port and keeps Open MPI waiting, the job
# says so and goes on when the stranger is gone.
# alone: it kills and waits, and a rank that gets no core for seconds looks dead
#
# The script has a network of its own if it may, so that no other program connects.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m -n true 2>/dev/null; then
    OWN_SHM=yes OWN_NET=yes exec unshare -m -n --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
# shellcheck source=../tools/ports.sh
. "$top/tests/tools/ports.sh"
need_mnist
if [ -n "${OWN_NET:-}" ]; then
    need_command ip
    ip link set lo up
fi
endless=(--threads 1 --batch 20 --steps 100000000 --checkpoint-every 0.2s --eval-every 100000 \
    --quiet)

ranks_of() # RUN: the processes of its ranks
{
    sed -nE 's/^ *"pid": *([0-9]+),?$/\1/p' "$1/ranks.json"
}

# No rank listens. mpirun does (its ports cannot harm a job), which shows that this way of looking
# finds ports.
expect_no_doors() # RUN RANKS
{
    local one ranks
    ranks=$(ranks_of "$1")
    expect_same "$(wc -w <<<"$ranks")" "$2"
    for one in $ranks; do
        expect test -z "$(ports_of "$one")"
    done
    for one in $(processes); do
        [ "$(cat "/proc/$one/comm" 2>/dev/null)" = mpirun ] || expect test -z "$(ports_of "$one")"
    done
    one=$(for one in $(processes); do
        [ "$(cat "/proc/$one/comm" 2>/dev/null)" != mpirun ] || ports_of "$one"
    done)
    expect test -n "$one"
}

stop_job()
{
    kill -"$1" "$pid"
    await_end 20
    expect_nothing_left 5
}

case_ "--hosts localhost: no rank listens"
train_job here "${endless[@]}" --mode async --hosts localhost:2
expect_no_doors here 3
stop_job INT

case_ "under a plain mpirun no rank listens"
begin_job mpirun --oversubscribe --bind-to none -n 3 yoke train softmax --run plain "${endless[@]}"
await "$patience" has_checkpoint plain || fail "no checkpoint"
expect_no_doors plain 3
stop_job USR1

case_ "nor in an all-reduce, nor in several contexts"
begin_job mpirun --oversubscribe --bind-to none -n 1 yoke train softmax --run all --mode allreduce \
    "${endless[@]}" : -n 2 yoke train softmax --run all --mode allreduce "${endless[@]}"
await "$patience" has_checkpoint all || fail "no checkpoint"
expect_no_doors all 3
stop_job USR1

case_ "a /dev/shm that is too small for all takes nobody's work away"
if [ -z "${OWN_SHM:-}" ]; then
    skip "needs root"
else
    mount -t tmpfs -o size=200k tmpfs /dev/shm
    expect_exit 0 bounded 60 mpirun --oversubscribe -n 3 yoke train softmax --run small --steps 50 \
        --quiet
    umount /dev/shm
fi

# Ranks take 4 MB each, one after the other: the third case has room for two, in the fourth the
# first rank sees room for all and the last does not.
case_ "nor does one that others have filled, though it is large"
for free in 1 4 10 16 20; do
    if [ -z "${OWN_SHM:-}" ]; then
        skip "needs root"
        break
    fi
    mount -t tmpfs -o size=64m tmpfs /dev/shm
    head -c $(((64 - free) << 20)) /dev/zero >/dev/shm/full
    expect_exit 0 bounded 60 mpirun --oversubscribe -n 3 yoke train softmax --run "full-$free" \
        --steps 50 --quiet
    umount /dev/shm
done

case_ "what the user says about the wire stands"
train_job user "${endless[@]}" --mode async --hosts localhost:2
stop_job INT
begin_job env OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo yoke train --resume user --quiet
await "$patience" test -s user/ranks.json
first=$(rank_pid user ps 0)
has_doors() # RUN
{
    find_rank "$1" ps 0
    [ "$rank" != "${first:-}" ] || return 1
    [ -n "$rank" ] && [ -n "$(ports_of "$rank")" ]
}
await "$patience" has_doors user || fail "rank 0 has no port"
stop_job INT

# --- workers that may be replaced ---

said() # RUN REGEX
{
    grep -qE -- "$2" "$1/log.txt"
}

case_ "a stranger who says four bytes and waits is noticed, and what he cost is an event"
train_job held "${endless[@]}" --mode async --on-worker-loss replace --hosts localhost:2
find_rank held ps 0
port=$(ports_of "$rank" tcp | head -n 1)
expect test -n "$port"
stranger 127.0.0.1 "${port:-0}" 60 &
guest=$!
await 20 said held \
    'rank 0: Open MPI has not answered for 1\.[0-9] s; a connection from outside may block it' ||
    fail "the log says nothing"
kill "$guest"
wait "$guest" 2>/dev/null
await 20 said held 'rank 0: Open MPI answers again, after [0-9.]+ s' ||
    fail "the log does not say that it is over"
stop_job INT
expect_err 'rank 0: Open MPI has not answered for'
expect_event held 'rank 0: Open MPI answers again, after'
expect_same "$(grep -c 'has not answered' held/log.txt)" 1

# Training goes on a moment before the rank notices that the stranger has left, and may end then.
case_ "that he has left is said even if the run ends with it"
train_job brief "${endless[@]}" --mode async --on-worker-loss replace --heartbeat 60 \
    --hosts localhost:2
find_rank brief ps 0
port=$(ports_of "$rank" tcp | head -n 1)
stranger 127.0.0.1 "${port:-0}" 60 &
guest=$!
await 20 said brief 'rank 0: Open MPI has not answered' || fail "the log says nothing"
kill -USR1 "$rank"
kill "$guest"
wait "$guest" 2>/dev/null
ended_with 138 # as rank 0 was told by SIGUSR1
expect grep -qE 'rank 0: Open MPI answers again, after [0-9.]+ s' brief/log.txt
expect_nothing_left 5

case_ "a run that is resumed still replaces its workers"
rm -f held/summary.json
before=$(checkpoints_of held | tail -n 1)
goes_on() # it has made a checkpoint since
{
    [ "$(checkpoints_of held | tail -n 1)" != "$before" ]
}
begin_job env EVENT_NOEPOLL=1 mpirun --oversubscribe --bind-to none --mca orte_enable_recovery 1 \
    -n 3 yoke train --resume held --quiet
await "$patience" goes_on || fail "it does not go on"
kill_rank 9 held worker 1
await "$patience" said held 'worker 1 is replaced by process' || fail "worker 1 was not replaced"
stop_job USR1
