#!/bin/bash
# compress.sh - --compress between processes saves as many bytes as promised and keeps the accuracy,
# in every mode, and is refused where it means nothing.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
need_mnist
tool json_check

within() # A B TOLERANCE
{
    awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { exit !(a - b <= t && b - a <= t) }'
}

sent() # RUN: bytes that its workers have sent, all together
{
    each bytes_sent "$1" | total
}

received()
{
    each bytes_received "$1" | total
}

trained() # NAME HOW ARGS...
{
    local name=$1 how=$2
    shift 2
    expect_exit 0 yoke train softmax --batch 100 --lr 0.1 --epochs 2 --threads 1 --quiet \
        --compress "$how" --hosts localhost:3 --run "$name" "$@"
}

share() # BYTES OF LEAST MOST: in percent
{
    awk -v a="$1" -v b="$2" -v lo="$3" -v hi="$4" \
        'BEGIN { p = 100 * a / b; exit !(p >= lo && p <= hi) }' ||
        fail "$1 of $2 bytes are not $3 to $4 %"
}

# MODE: name and options
compare()
{
    local name=$1 options=$2 how
    shift 2
    # shellcheck disable=SC2086 # words
    trained "$name" none $options
    for how in bf16 fp16 int8 topk:0.01; do
        case_ "$name, $how: fewer bytes, the same accuracy"
        # shellcheck disable=SC2086
        trained "$name-$how" $how $options
        within "$(of test_accuracy "$name-$how")" "$(of test_accuracy "$name")" 0.005 ||
            fail "accuracy $(of test_accuracy "$name-$how") instead of $(of test_accuracy "$name")"
        expect_same "$(of examples "$name-$how") $(of reproducible "$name-$how") $(of compress \
            "$name-$how")" "120000 false $how"
    done
}

compare sync "--mode sync --ps 1"
case_ "sync: bf16 and fp16 halve the bytes both ways, int8 quarters them, topk sends a hundredth"
for how in bf16 fp16; do
    share "$(sent sync-$how)" "$(sent sync)" 48 52
    share "$(received sync-$how)" "$(received sync)" 48 52
done
share "$(sent sync-int8)" "$(sent sync)" 24 27
share "$(received sync-int8)" "$(received sync)" 24 27
share "$(sent sync-topk:0.01)" "$(sent sync)" 0.5 2
share "$(received sync-topk:0.01)" "$(received sync)" 24 27

compare servers "--mode sync --ps 2"
compare allreduce "--mode allreduce"
case_ "allreduce: what leaves a process is packed"
share "$(sent allreduce-bf16)" "$(sent allreduce)" 48 52
share "$(sent allreduce-int8)" "$(sent allreduce)" 24 27

compare async "--mode async"
compare backup "--mode sync --backup 1"
expect_nothing_left 2

case_ "a run goes on in threads, where there is no wire, and in processes again with another codec"
trained moved int8 --mode sync --steps 100
expect_exit 0 yoke train --resume moved --workers 2 --steps 200 --json
expect_same "$(json compress)" none
expect_exit 0 yoke train --resume moved --hosts localhost:2 --compress bf16 --steps 300 --quiet
expect_same "$(of compress moved) $(of global_steps moved)" "bf16 300"

case_ "what cannot be compressed is refused"
expect_error 2 "'zip' is no way to compress" yoke train softmax --compress zip --hosts localhost:2
expect_error 2 "'topk:2' is no way to compress" yoke train softmax --compress topk:2 \
    --hosts localhost:2
expect_error 2 "--compress means nothing to one process" yoke train softmax --compress bf16 \
    --hosts localhost
expect_error 2 "--compress means nothing to workers that are threads" \
    yoke train softmax --compress bf16 --workers 2
expect_error 2 "--compress means nothing to logreg" yoke train logreg --data synth-criteo:1000 \
    --compress bf16 --hosts localhost:2
expect_error 2 "--clip means nothing to logreg" yoke train logreg --data synth-criteo:1000 --clip 1
expect_error 2 "--weight-decay means nothing to logreg" yoke train logreg --data synth-criteo:1000 \
    --weight-decay 1
expect_exit 0 yoke train softmax --workers 2 --steps 10 --quiet --run plain
expect_exit 0 yoke train softmax --compress none --workers 2 --steps 10 --quiet --run none
expect_same "$(params_of none) $(of compress none)" "$(params_of plain) none"
expect_nothing_left 2
