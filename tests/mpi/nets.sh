#!/bin/bash
# nets.sh - several workers train nets, above all LeNet on MNIST: the bits are the same where that
# is promised, also after a kill; every example counts once where it is not; and compressed
# gradients save as many bytes as promised, and teach as well.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
need_mnist

# Bits depend on the engine, so it is named: 'auto' takes the one that was faster just now.
same=(--global-batch 250 --shards 4 --threads 1 --steps 40 --eval-every 40 --quiet)

n=0
same_bits() # COMMAND...: a run in the folder run-N that equals the local one
{
    n=$((n + 1))
    expect_exit 0 "$@" --run "run-$n"
    expect_same "$(params_of run-$n)" "$bits"
    expect_same "$(of global_steps run-$n) $(of examples run-$n) $(of reproducible run-$n)" \
        "40 10000 true"
    expect_no_err
}

for engine in lanes onednn; do
    case_ "LeNet, $engine: local, sync and allreduce give the same bits in threads and processes"
    expect_exit 0 yoke train lenet "${same[@]}" --engine $engine --run $engine
    bits=$(params_of $engine)
    same_bits yoke train lenet "${same[@]}" --engine $engine --mode sync --workers 3
    same_bits yoke train lenet "${same[@]}" --engine $engine --mode allreduce --workers 2
    same_bits yoke train lenet "${same[@]}" --engine $engine --mode sync --ps 2 --hosts localhost:3
    same_bits yoke train lenet "${same[@]}" --engine $engine --mode allreduce --hosts localhost:4
done
[ "$(params_of lanes)" != "$(params_of onednn)" ] ||
    fail "two engines, and the same bits: the comparisons above may compare one"

case_ "any number of processes gives the same dropout, batchnorm and biases with their own rate"
cat >chance.net <<'END'
net chance
input 28x28x1
conv 8 5x5 stride 2 bias none
batchnorm
relu
dropout 0.3
conv 16 3x3 stride 2
batchnorm
relu
dropout 0.5
dense 10
softmax
train data mnist optimizer adam lr 0.002 weight-decay 0.001
train biases lr 0.004 weight-decay 0
END
expect_exit 0 yoke train chance.net "${same[@]}" --run chance
bits=$(params_of chance)
same_bits yoke train chance.net "${same[@]}" --mode sync --hosts localhost:2
same_bits yoke train chance.net "${same[@]}" --mode allreduce --hosts localhost:3
same_bits yoke train chance.net "${same[@]}" --mode sync --workers 4
expect awk -v a="$(of test_accuracy chance)" 'BEGIN { exit !(a > 0.8) }'
expect_nothing_left 2

# --- kill -9 ---

kill_all()
{
    kill_processes
    await_end 5
    await 5 no_processes || fail "processes are left"
}

# after_kill NAME START... -- RESUME...: killed after a checkpoint, and resumed, it ends with the
# bits of the run that nobody touched
after_kill()
{
    local name=$1 start=() common=(--global-batch 64 --shards 4 --threads 1 --engine lanes \
        --eval-every 1000) end
    shift
    while [ "$1" != -- ]; do
        start+=("$1")
        shift
    done
    shift
    begin_job yoke train lenet "${common[@]}" --steps 1000000 --checkpoint-every 0.2s \
        --run "$name" "${start[@]}"
    await "$patience" has_checkpoint "$name" || fail "no checkpoint within $patience s"
    kill_all
    end=$(($(checkpoints_of "$name" | tail -n 1 | tr -dc 0-9 | sed 's/^0*//') + 200))
    expect_exit 0 yoke train --resume "$name" --steps $end --quiet "$@"
    expect_exit 0 yoke train lenet "${common[@]}" --steps $end --run "$name.whole" --quiet
    expect_same "$(params_of "$name")" "$(params_of "$name.whole")"
    expect_same "$(of global_steps "$name") $(of examples "$name")" \
        "$end $(of examples "$name.whole")"
    expect_same "$(of test_loss "$name")" "$(of test_loss "$name.whole")"
}

case_ "a LeNet that was killed and resumed ends with the bits of one that was not"
after_kill alone --mode local --
case_ "processes killed, resumed by threads: likewise"
after_kill many --mode allreduce --hosts localhost:2 -- --workers 2

# --- modes that promise no bits ---

learnt() # RUN LEAST: all examples were taken once, and it has learnt
{
    expect_same "$(of examples "$1") $(each examples "$1" | total)" "60000 60000"
    awk -v a="$(of test_accuracy "$1")" -v b="$2" 'BEGIN { exit !(a >= b) }' ||
        fail "accuracy $(of test_accuracy "$1"), less than $2"
}

case_ "a worker is replaced by one that gets all of the net, however long its text; the bits stay"
remark='# remark %.0f, which takes some room in the file and means nothing at all'
{ cat chance.net; seq -f "$remark" 100; } >long.net
long=(--global-batch 64 --shards 3 --threads 1 --engine onednn --steps 700 --checkpoint-every 50 \
    --eval-every 100 --mode sync --ps 2)
expect_exit 0 yoke train long.net "${long[@]}" --workers 3 --quiet --run long-whole
begin_job yoke train long.net "${long[@]}" --hosts localhost:3 --on-worker-loss replace \
    --run long-new
await "$patience" has_checkpoint long-new || fail "no checkpoint within $patience s"
kill_rank 9 long-new worker 0
ended_with 0
expect_event long-new "worker 0 is replaced by process [0-9]+"
expect_same "$(params_of long-new)" "$(params_of long-whole)"
expect_nothing_left 2

pass=(--batch 64 --lr 0.005 --epochs 1 --threads 1 --eval-every 10000 --quiet)
case_ "async: an epoch of LeNet, by threads and by processes"
expect_exit 0 yoke train lenet "${pass[@]}" --mode async --workers 2 --run async-1
learnt async-1 0.95
expect_exit 0 yoke train lenet "${pass[@]}" --mode async --ps 2 --hosts localhost:3 --run async-2
learnt async-2 0.95
expect_same "$(of reproducible async-2)" false
case_ "ssp: likewise"
expect_exit 0 yoke train lenet "${pass[@]}" --mode ssp --staleness 2 --hosts localhost:2 --run ssp
learnt ssp 0.95

case_ "async: the running variance of batchnorm stays one, however late a push comes"
cat >norm.net <<'END'
net norm
input 8x8x3
conv 16 3x3
batchnorm momentum 0.3
relu
dense 3
softmax
END
# the first batch of each worker is computed without an update of the others
norm=(train norm.net --data fake:8x8x3:3:256 --batch 16 --lr 0.05 --steps 6 --threads 1 --quiet)
expect_exit 0 yoke "${norm[@]}" --mode async --workers 6 --run norm
expect_exit 0 yoke export norm --to npz -o norm.npz --quiet
python3 - norm.npz <<'END' || fail "a variance is not"
import struct, sys, zipfile
v = zipfile.ZipFile(sys.argv[1]).read("batchnorm1.var.npy")[-16 * 4:]
sys.exit(not all(0 < x < 10 for x in struct.unpack("<16f", v)))
END
for how in int8 topk:0.1; do
    expect_exit 2 yoke "${norm[@]}" --mode sync --hosts localhost:2 --compress $how --run never
    expect_err "--compress $how does not work with batchnorm"
done

# --- compression ---

case_ "compressed, LeNet learns as much"
expect_exit 0 yoke train lenet "${pass[@]}" --mode sync --hosts localhost:2 --run none
learnt none 0.94
for how in bf16 int8 topk:0.1; do
    expect_exit 0 yoke train lenet "${pass[@]}" --mode sync --hosts localhost:2 --compress $how \
        --run $how
    learnt $how "$(awk -v a="$(of test_accuracy none)" 'BEGIN { print a - 0.015 }')"
    expect_same "$(of compress $how) $(of reproducible $how)" "$how false"
done

share() # KEY RUN LEAST MOST: bytes of its workers, in percent of those that are not compressed
{
    awk -v a="$(each "$1" "$2" | total)" -v b="$(each "$1" none | total)" -v lo="$3" -v hi="$4" \
        'BEGIN { p = 100 * a / b; exit !(p >= lo && p <= hi) }' ||
        fail "$2, $1: $(each "$1" "$2" | total) of $(each "$1" none |
        total) bytes are not $3 to $4 %"
}

case_ "bf16 halves the bytes both ways, int8 quarters them, topk:0.1 sends a tenth with its places"
share bytes_sent bf16 49 51.5
share bytes_received bf16 49 51.5
share bytes_sent int8 24.5 27
share bytes_received int8 24.5 27
share bytes_sent topk:0.1 5 16
expect_nothing_left 2
