#!/bin/bash
# kills.sh - 50 random kills of random ranks, of mpirun and of the yoke parent, at random times, in
# random modes: every job ends within 15 s with the right status, nothing is counted twice or left
# behind, and a job that was lost goes on from its checkpoint and ends as if nothing had happened,
# with the bits of the undisturbed run where the mode promises them.
#
# SEED=N repeats a campaign (as far as time can be repeated), KILLS=N makes it another length.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
need_mnist
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "SEED=$seed"
RANDOM=$seed
KILLS=${KILLS:-50}
hang=15

# VARIABLE WORDS...: one of them into the variable; a subshell would have random numbers of its own
one_of()
{
    local into=$1
    shift $((1 + RANDOM % ($# - 1)))
    printf -v "$into" %s "$1"
}

# What every run has in common. A batch of 20 for each of 3 workers: short steps, and many of them.
epochs=12
common=(--epochs "$epochs" --threads 1 --seed 7 --eval-every 4000 --checkpoint-every 0.4s)
exact=(--global-batch 60 --shards 12)

case_ "the undisturbed run"
expect_exit 0 yoke train softmax "${common[@]}" "${exact[@]}" --run whole --quiet
bits=$(params_of whole)
expect_same "$(of examples whole)" $((epochs * 60000))

# pick: a mode with its options in $args, whether its bits are promised in $promised, owners and
# workers
pick()
{
    one_of mode sync sync allreduce async ssp backup
    one_of workers 2 3 4
    ps=0 promised=no
    args=("${common[@]}" --mode "${mode/backup/sync}")
    case $mode in
    sync | allreduce) args+=("${exact[@]}") promised=yes ;;
    backup) args+=(--batch 30 --backup 1) ;;
    *) args+=(--batch 60) ;;
    esac
    if [ "$mode" != allreduce ]; then
        one_of ps 1 1 2
        args+=(--ps "$ps")
    fi
    one_of loss continue continue replace fail restart
    args+=(--on-worker-loss "$loss")
    restarts=0
    [ "$loss" != restart ] || restarts=3
    local more where
    one_of more no no yes
    if [ "$more" = yes ]; then
        one_of restarts 1 2
        args+=(--restarts "$restarts")
    fi
    one_of victim parent mpirun rank rank rank rank rank
    # shellcheck disable=SC2154 # one_of assigns by name
    [ "$victim" != rank ] || victim=$((RANDOM % (ps + workers)))
    second='' # another rank, a little later
    one_of where no no yes
    if [ "$where" = yes ] && [ "$victim" != parent ] && [ "$victim" != mpirun ]; then
        second=$((RANDOM % (ps + workers)))
        pause=0.$((100 + RANDOM % 900))
    fi
    moment=$(printf '%d.%03d' $((RANDOM % 3)) $((RANDOM % 1000)))
}

# The process to be killed, now; nothing if it is not there yet, or any more.
find_victim() # parent, mpirun or a rank
{
    case $1 in
    parent) echo "$pid" ;;
    mpirun) children "$pid" mpirun ;;
    *)
        local one
        for one in $(processes); do
            if grep -qsz "^OMPI_COMM_WORLD_RANK=$1\$" "/proc/$one/environ"; then
                echo "$one"
                return
            fi
        done
        ;;
    esac
}

# The statuses that are right, given who was killed and whether the job had started by then.
right_statuses()
{
    case $victim in
    parent) echo 137 ;;
    mpirun) echo "4$([ "$restarts" = 0 ] || echo " 0")" ;;
    *)
        if [ -n "$second" ]; then
            echo "0 4"
        # a rank that dies in MPI_Init is a start that failed, or it was none yet
        elif [ "$started" = no ]; then
            echo "4 0"
        elif [ "$victim" -ge "$ps" ] && [ "$mode" != allreduce ] && { [ "$loss" = continue ] ||
            [ "$loss" = replace ]; }; then
            echo 0
        elif [ "$restarts" -gt 0 ]; then
            echo "0 4" # 4 if there was no checkpoint yet
        else
            echo 4
        fi
        ;;
    esac
}

expect_whole() # RUN: everything was counted once, and the bits are right
{
    expect_same "$(of examples "$1") $(of stop_reason "$1")" "$((epochs * 60000)) epochs"
    [ $promised = no ] || expect_same "$(params_of "$1")" "$bits"
}

kill_now() # parent, mpirun or a rank; whether there was one is in $killed
{
    local target
    target=$(find_victim "$1")
    if [ "$target" ] && ! is_gone "$target" && kill -9 "$target" 2>/dev/null; then
        killed=yes
    fi
}

for ((n = 1; n <= KILLS; n++)); do
    pick
    then=${second:+, $second after another $pause s}
    case_ "$n: $mode, $ps+$workers, $loss, restarts $restarts: kill $victim after $moment s$then"
    run=run-$n
    begin_job yoke train softmax "${args[@]}" --hosts "localhost:$workers" --run "$run"
    sleep "$moment"
    started=no killed=no
    [ ! -e "$run/ranks.json" ] || started=yes
    kill_now "$victim"
    if [ -n "$second" ]; then
        sleep "$pause"
        kill_now "$second"
    fi
    at=${EPOCHREALTIME/./}
    await_end 60
    took=$(since "$at")
    echo "# $n: killed: $killed, started: $started, status $status, $took ms after the kill"
    sed "s/^/#     /" "$ERR" | tail -n 8
    if [ "$killed" = no ]; then
        [ "$status" = 0 ] || fail "nobody was killed, and it ended with status $status"
    else
        case " $(right_statuses) " in
        *" $status "*) ;;
        *" 4 "* | *" 137 "*) # killed too late: it had its result already
            [ "$status" = 0 ] || fail "status $status is none of: $(right_statuses)"
            expect test -e "$run/summary.json"
            ;;
        *) fail "status $status is none of: $(right_statuses)" ;;
        esac
    fi
    expect_nothing_left 3
    [ "$status" = 0 ] || [ "$took" -lt $((hang * 1000)) ] || fail "it took $took ms to end"
    if [ "$status" = 0 ]; then
        expect_whole "$run"
    elif [ -e "$run/config.json" ]; then
        [ "$status" != 4 ] || grep -q 'yoke train --resume' "$ERR" || ! has_checkpoint "$run" ||
            fail "no word on how to resume"
        resume=()
        one_of where processes threads
        [ "$where" = processes ] || resume=(--workers "$workers")
        begin_job yoke train --resume "$run" "${resume[@]}"
        ended_with 0 60
        expect_whole "$run"
        expect_nothing_left 3
    fi
    rm -rf "$run"
done
