#!/bin/bash
# logreg.sh - sparse logistic regression by several processes: the bits are those of one process
# where that is promised, every row counts once where it is not; workers and owners are lost; and
# the memory of each process is measured with a model of 33,762,578 features.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
private_cache
data=synth-criteo:30000:10000
endless=100000000

close_to() # A B PERCENT
{
    awk -v a="$1" -v b="$2" -v p="$3" \
        'BEGIN { exit !(a > 0 && b > 0 && a / b - 1 <= p / 100 && b / a - 1 <= p / 100) }'
}

# --- the same bits ---

# 30,000 = 166 * 180 + 120: the last batch of an epoch is short. Twelve shards can be shared by 1,
# 2, 3 and 4 workers.
same=(--data "$data" --global-batch 180 --shards 12 --threads 1 --epochs 2 --quiet)
n=0
same_bits() # COMMAND...: a run in the folder run-N that equals the local one
{
    n=$((n + 1))
    expect_exit 0 "$@" --run "run-$n"
    expect_same "$(params_of run-$n)" "$bits"
    expect_same "$(of global_steps run-$n) $(of examples run-$n) $(of reproducible run-$n)" \
        "334 60000 true"
    expect_same "$(of progressive_loss run-$n | cut -c1-9)" \
        "$(of progressive_loss local | cut -c1-9)"
    expect_no_err
}

# src/train/sparse_test.c has every optimizer with every crew of threads; of processes each
# optimizer sees one kind, the first all.
all=("--mode sync --workers 4 --ps 2" "--mode sync --hosts localhost:3" \
    "--mode sync --hosts localhost:2 --ps 2"
    "--mode allreduce --hosts localhost:3")
same_as_local() # "OPTIMIZER..." "HOW..."...
{
    local words
    case_ "$1: threads and processes: the bits of one process"
    read -ra words <<<"$1"
    shift
    rm -rf local
    expect_exit 0 yoke train logreg "${same[@]}" --optimizer "${words[@]}" --run local
    bits=$(params_of local)
    for how in "$@"; do
        # shellcheck disable=SC2086 # words
        same_bits yoke train logreg "${same[@]}" --optimizer "${words[@]}" $how
    done
}
same_as_local "adagrad" "${all[@]}"
same_as_local "sgd --lr 0.05 --l2 0.001" "${all[2]}"
same_as_local "ftrl --l1 0.5" "${all[3]}"
same_as_local "momentum --lr 0.01" "${all[1]}"
case_ "... and with one worker, four, and under an mpirun of the user's"
same_bits yoke train logreg "${same[@]}" --optimizer momentum --lr 0.01 --hosts localhost:1 \
    --mode sync
same_bits yoke train logreg "${same[@]}" --optimizer momentum --lr 0.01 --hosts localhost:4 \
    --mode sync --ps 3
same_bits direct 4 logreg "${same[@]}" --optimizer momentum --lr 0.01 --mode sync --ps 2 --workers 2
expect_nothing_left 2

case_ "other shards, other bits: the comparisons above compare something"
expect_exit 0 yoke train logreg "${same[@]}" --shards 11 --optimizer momentum --lr 0.01 --run eleven
[ "$(params_of eleven)" != "$bits" ] || fail "sums in another order, and the same bits"

case_ "evaluation by keys of bounded batches, wherever the weights are"
eval=(--data "$data" --holdout 0.2 --global-batch 120 --shards 12 --threads 1 --eval-every 6000ex \
    --test-batch 100 --quiet)
expect_exit 0 yoke train logreg "${eval[@]}" --run eval
for how in "--mode sync --hosts localhost:2 --ps 2" "--mode allreduce --hosts localhost:3"; do
    rm -rf eval-far
    # shellcheck disable=SC2086
    expect_exit 0 yoke train logreg "${eval[@]}" $how --run eval-far
    for key in params_xxh3 test_loss test_accuracy test_auc test_precision test_recall; do
        expect_same "$(of $key eval-far)" "$(of $key eval)"
    done
    expect_same "$(grep -oE '"(examples|test/loss|test/auc)":[0-9.]+' eval-far/metrics.jsonl)" \
        "$(grep -oE '"(examples|test/loss|test/auc)":[0-9.]+' eval/metrics.jsonl)"
done
expect_exit 0 yoke eval eval-far --json
expect_same "$(json test_loss) $(json test_auc)" "$(of test_loss eval) $(of test_auc eval)"

case_ "the progressive loss is said by a job of processes, too"
expect_exit 0 yoke train logreg --data $data --hosts localhost:2 --mode sync --batch 32 --run said
expect_same "$(sed -nE 's/^yoke: +[0-9.]+ +[0-9.]+ +([0-9]+) +39$/\1/p' "$ERR" | tr '\n' ' ')" \
    "64 128 256 512 1024 2048 4096 8192 16384 "
expect_exit 0 yoke train logreg --data $data --hosts localhost:3 --mode async --ps 2 --batch 32 \
    --run said-async
expect_err '^yoke: +0\.[0-9]+ +0\.[0-9]+ +16[34][0-9]+ +39$'

# --- weights that are no numbers ---

# Twenty rows have a feature of their own each, and their weights leave the range of floats: no loss
# shows it.
case_ "weights that no loss shows are found where they are fetched to be written, whoever owns them"
{
    for ((i = 0; i < 198; i++)); do
        echo "$((i % 2)) $((i % 7 + 1)):1 9:0.5"
    done
    for ((i = 0; i < 20; i++)); do
        echo "$((i % 2)) $((20 + i)):3e38"
    done
} >hot.libsvm
for how in "sync --ps 2 --optimizer sgd" "async --ps 2 --optimizer sgd --l2 0.01" \
    "allreduce --optimizer momentum"; do
    rm -rf hot
    # shellcheck disable=SC2086 # words
    expect_error 1 \
        "diverged: a parameter or its optimizer state after step [0-9]+ is not a number" \
        yoke train logreg --data hot.libsvm --lr 1000 --batch 2 --epochs 1 --checkpoint-every 1 \
        --run hot --quiet --hosts localhost:2 --mode $how
    expect test ! -e hot/summary.json
    expect test -z "$(find hot -name '*.tmp*')"
    if [ -n "$(find hot -name '*.safetensors')" ]; then
        expect_exit 0 yoke eval hot --data hot.libsvm
    fi
done
expect_nothing_left 2

# --- where no bits are promised ---

case_ "async, ssp and backup: every row once an epoch, and a loss near that of one process"
alone=(--data "$data" --batch 50 --threads 1 --epochs 2 --quiet)
expect_exit 0 yoke train logreg "${alone[@]}" --run alone
for how in "--mode async --hosts localhost:3" "--mode async --hosts localhost:3 --ps 2" \
    "--mode ssp --staleness 1 --hosts localhost:2 --ps 2" \
    "--mode sync --backup 1 --hosts localhost:3"; do
    rm -rf free
    # shellcheck disable=SC2086
    expect_exit 0 yoke train logreg "${alone[@]}" $how --run free
    expect_same "$(of examples free) $(each examples free | total)" "60000 60000"
    expect_same "$(of stop_reason free) $(of reproducible free)" "epochs false"
    expect close_to "$(of progressive_loss free)" "$(of progressive_loss alone)" 3
done

# --- losses ---

# Long enough to be killed in the middle, short enough to wait for the end.
short=(--data "$data" --threads 1 --epochs 16 --checkpoint-every 300)
exact=(--global-batch 120 --shards 12)
expect_exit 0 yoke train logreg "${short[@]}" "${exact[@]}" --quiet --run whole

logreg_job() # RUN ARGS...: a job over processes, in the background, and its first checkpoint
{
    local run=$1
    shift
    begin_job yoke train logreg --run "$run" --quiet "$@"
    await "$patience" has_checkpoint "$run" || fail "no checkpoint of '$run' within $patience s"
}

survives() # RUN ARGS...: the loss of its worker 1
{
    local run=$1
    shift
    logreg_job "$run" "${short[@]}" --hosts localhost:3 "$@"
    kill_rank 9 "$run" worker 1
    ended_with 0
    expect_event "$run" "worker 1 is lost: process [0-9]+ has ended; going on with 2"
    expect_same "$(of examples "$run") $(each examples "$run" | total) $(of stop_reason "$run")" \
        "480000 480000 epochs"
    expect_same "$(of lost_workers "$run")" 1
    expect_nothing_left 2
}

for ps in 1 2; do
    case_ "sync, $ps owner(s): a worker is killed; the others do its part, and the bits stay"
    survives sync-$ps --mode sync --ps $ps "${exact[@]}"
    expect_same "$(params_of sync-$ps)" "$(params_of whole)"
    case_ "async, $ps owner(s): a worker is killed; each row is counted once"
    survives async-$ps --mode async --ps $ps --batch 50
    case_ "ssp, $ps owner(s): likewise"
    survives ssp-$ps --mode ssp --staleness 2 --ps $ps --batch 50
done

case_ "replaced, with the same bits"
logreg_job new "${short[@]}" "${exact[@]}" --hosts localhost:3 --mode sync --ps 2 \
    --on-worker-loss replace
kill_rank 9 new worker 0
ended_with 0
expect_event new "worker 0 is replaced by process [0-9]+"
expect_same "$(params_of new) $(of examples new)" "$(params_of whole) 480000"
expect_nothing_left 2

for who in 0 1; do
    case_ "owner $who is killed: status 4 within 10 s, and resumed it ends with the same bits"
    logreg_job owner-$who "${short[@]}" "${exact[@]}" --hosts localhost:2 --mode sync --ps 2
    kill_rank 9 owner-$who ps $who
    ended_with 4 10
    expect_err "owner $who is lost"
    expect_err "^hint: .*yoke train --resume owner-$who"
    expect_nothing_left 2
    expect_exit 0 yoke train --resume owner-$who --quiet
    expect_same "$(params_of owner-$who) $(of examples owner-$who)" "$(params_of whole) 480000"
done

# resumed NAME SIGNAL CODE START -- RESUME...: stopped after a checkpoint and resumed by others
resumed()
{
    local name=$1 signal=$2 code=$3 start=() end
    shift 3
    while [ "$1" != -- ]; do
        start+=("$1")
        shift
    done
    shift
    logreg_job "$name" --data "$data" "${exact[@]}" --threads 1 --optimizer "${lazy[@]}" \
        --steps $endless --checkpoint-every 0.1s "${start[@]}"
    if [ "$signal" = 9 ]; then
        kill_processes
    else
        kill "-$signal" "$pid"
    fi
    ended_with "$code" 10
    await 5 no_processes || fail "processes are left"
    end=$(($(checkpoints_of "$name" | tail -n 1 | tr -dc 0-9 | sed 's/^0*//') + 500))
    expect_exit 0 yoke train --resume "$name" --steps $end --quiet "$@"
    expect_exit 0 yoke train logreg --data "$data" "${exact[@]}" --threads 1 \
        --optimizer "${lazy[@]}" --steps $end --quiet --run "$name.whole"
    expect_same "$(params_of "$name") $(of examples "$name")" \
        "$(params_of "$name.whole") $(of examples "$name.whole")"
}

lazy=(sgd --lr 0.05 --l2 0.001)
case_ "all processes killed, resumed by more of them, with L2 that untouched weights are owed"
resumed more 9 137 --hosts localhost:2 --mode sync --ps 2 -- --hosts localhost:4 --ps 1
case_ "Ctrl-C on processes, resumed by threads"
resumed inside INT 130 --hosts localhost:3 --mode sync --ps 1 -- --workers 2
lazy=(ftrl --l1 0.5)
case_ "threads killed, resumed by processes"
resumed outside 9 137 --workers 3 --mode allreduce -- --hosts localhost:2 --mode sync --ps 2
case_ "Ctrl-C on an all-reduce, resumed by one process"
resumed ring INT 130 --hosts localhost:3 --mode allreduce -- --mode local --workers 1
expect_nothing_left 2

# --- memory ---

# The most anonymous memory, in kB, of the owner and of the hungriest worker of RUN, until COMMAND
# holds, into $owner and $worker.
watch_memory() # RUN COMMAND...
{
    local ranks i one samples=0
    mapfile -t ranks < <(sed -nE 's/.*"pid": *([0-9]+).*/\1/p' "$1/ranks.json")
    owner=0 worker=0
    shift
    until "$@" && [ "$samples" -ge 5 ]; do
        samples=$((samples + 1))
        for i in "${!ranks[@]}"; do
            one=$(sed -nE 's/^RssAnon:[^0-9]*([0-9]+) kB/\1/p' "/proc/${ranks[i]}/status" \
                2>/dev/null)
            if [ "$i" = 0 ]; then
                [ "${one:-0}" -le "$owner" ] || owner=$one
            else
                [ "${one:-0}" -le "$worker" ] || worker=$one
            fi
        done
        read -rt 0.01 -u "$silence"
    done
}

passed() # MICROSECONDS: that time has come
{
    [ "${EPOCHREALTIME/./}" -ge "$1" ]
}

# With so many features an owner has parameters and state, and once more while it writes; a worker
# has next to nothing.
vast() # RUN FEATURES FLOATS-A-WEIGHT ARGS...
{
    local run=$1 features=$2 floats=$3 state owner worker calm
    shift 3
    begin_job yoke train logreg --data "synth-criteo:100000:$features" --features "$features" \
        --hosts localhost:4 --epochs 100000 --threads 1 --eval-every 100000ex \
        --checkpoint-every 1000s --quiet --run "$run" "$@"
    await "$patience" test -s "$run/metrics.jsonl" ||
        fail "'$run' has not learnt anything within $patience s"
    watch_memory "$run" passed $((${EPOCHREALTIME/./} + 500000))
    calm=$owner
    expect test "$worker" -gt 1000
    expect test "$worker" -le 150000
    kill -TERM "$pid"
    watch_memory "$run" is_gone "$pid"
    ended_with 143
    state=$(((features + 1) * 4 * floats / 1024))
    echo "    $run: parameters and state are $state kB;" \
        "owner $calm, and while it writes $owner; worker $worker"
    expect test "$calm" -gt $((state / 10))
    expect test "$calm" -le $((state * 11 / 10 + 65536))
    expect test "$owner" -gt "$state"
    expect test "$owner" -le $((state * 21 / 10 + 65536))
    expect test "$worker" -le 150000
    expect_same "$(of parameters "$run")" $((features + 1))
    expect_nothing_left 2
    rm -rf "$run/checkpoints"
}

if [ "$(sed -nE 's/^MemAvailable: *([0-9]+) kB/\1/p' /proc/meminfo)" -lt 4000000 ]; then
    case_ "the memory of a model of 33,762,578 features"
    skip "needs 4 GB"
else
    # Of parameters and state, an owner has one copy, and two while it writes.
    case_ "async, 33,762,578 features, 4 workers: memory of an owner, and a worker under 150 MB"
    vast vast-async 33762578 2 --mode async
    case_ "... sync, sgd with L2, 12,000,000 features"
    vast vast-lazy 12000000 2 --mode sync --optimizer sgd --l2 0.0001
fi
