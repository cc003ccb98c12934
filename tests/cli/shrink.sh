#!/bin/bash
# shrink.sh - files of rows are shortened or overwritten while yoke has them mapped: one sentence,
# exit code 3, and the newest checkpoint is from before. The processes are real, and are stopped
# where the file has to change at a certain moment.
# san-1: all of it: the handler of SIGBUS beside that of AddressSanitizer
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
private_cache
endless=100000000

yoke data synth criteo --rows 40000 --features 100000 --seed 3 -o big.libsvm --quiet
yoke data convert big.libsvm whole.rows --quiet
head -n 100 big.libsvm >short.libsvm

cut_() { truncate -s 4096 "$1"; }
# row starts of the first rows
shuffle() { dd if=/dev/zero of="$1" bs=1 seek=128 count=64 conv=notrunc status=none; }
spoil() # FILE: keys of the first rows
{
    dd if=/dev/zero of="$1" bs=4096 seek=32 count=64 conv=notrunc status=none
}
overwrite() { cp short.libsvm "$1"; }
no_numbers() # FILE: into the last values of the last rows
{
    local at=$(($(stat -c %s "$1") / 4096 - 100))
    head -c 262144 /dev/zero | tr '\0' '\377' |
        dd of="$1" bs=4096 seek="$at" conv=notrunc iflag=fullblock status=none
}

# A run in the background until it has a checkpoint, of step `from` or later; then HOW changes FILE,
# and the run has to say so and to end.
from=1
expect_end() # HOW FILE ARGS...
{
    local how=$1 file=$2 got=0 pid n
    shift 2
    cp whole.rows big.rows
    rm -rf run
    yoke train logreg --steps $endless --max-seconds 90 --checkpoint-every 0.2s \
        --run run --quiet "$@" >"$OUT" 2>"$ERR" &
    pid=$!
    for ((n = 0; n < 6000; n++)); do # a minute and more: the machine may be busy
        ! has_checkpoint run || break
        sleep 0.01
    done
    has_checkpoint run || fail "no checkpoint after a minute"
    "$how" "$file"
    wait $pid || got=$?
    [ "$got" = 3 ] || fail "the run ended with status $got, not 3"
    expect_no_out
    expect_err "^yoke: .*'.*rows' changed while it was read"
    expect test "$(grep -c . "$ERR")" = 1
    expect test ! -e run/summary.json
}

has_checkpoint()
{
    [ -d "$1/checkpoints" ] && [ -n "$(checkpoints_of "$1")" ] && [ "$(newest_step)" -ge "$from" ]
}

newest_step()
{
    local step
    step=$(basename "$(newest_of run)" .safetensors)
    echo $((10#${step#step-}))
}

# The newest checkpoint is from before the change: resumed, it ends where an undisturbed run ends.
expect_from_before() # ARGS... of the run
{
    local step
    step=$(($(newest_step) + 50))
    cp whole.rows big.rows
    expect_exit 0 yoke train --resume run --steps "$step" --quiet
    rm -rf alone
    expect_exit 0 yoke train logreg --steps "$step" --run alone --quiet "$@"
    expect_same "$(params_of run)" "$(params_of alone)"
}

case_ "rows are cut while one process trains: exit 3, and the checkpoint is from before"
expect_end cut_ big.rows --data big.rows
expect_from_before --data whole.rows

case_ "the same when a shorter file is copied over them"
expect_end overwrite big.rows --data big.rows
expect_from_before --data whole.rows

case_ "the same when a file of the same size is"
expect_end shuffle big.rows --data big.rows
expect_from_before --data whole.rows

case_ "threads without locks"
expect_end cut_ big.rows --data big.rows --threads 2 --batch 1

case_ "two workers, async"
expect_end cut_ big.rows --data big.rows --mode async --workers 2

case_ "two workers, sync; the checkpoint is from before"
expect_end cut_ big.rows --data big.rows --mode sync --workers 2
expect_from_before --data whole.rows --mode sync --workers 2

case_ "two workers, async, and values that are no numbers: that is not called a divergence"
expect_end no_numbers big.rows --data big.rows --mode async --workers 2 --batch 20000

case_ "the cache of a text"
rm -rf "$XDG_CACHE_HOME/yoke/rows"
yoke data info big.libsvm >"$OUT" 2>&1
expect_end cut_ "$(echo "$XDG_CACHE_HOME"/yoke/rows/big.libsvm-*.rows)" --data big.libsvm

case_ "the test data"
cp whole.rows test.rows
expect_end cut_ test.rows --data big.libsvm --test-data test.rows --eval-every 500

if command -v mpirun >/dev/null; then
    case_ "over MPI, noticed by rank 0 or by a worker"
    expect_end cut_ big.rows --data big.rows --mode async --hosts localhost:2
    case_ "over MPI, where workers alone have the data"
    expect_end cut_ big.rows --data big.rows --data-local --mode async --hosts localhost:2
    case_ "over MPI, where workers alone have the data: nothing is saved of rows written over"
    args=(--data-local --mode sync --hosts localhost:2 --batch 10000)
    from=5 # steps 2 and 66 are timed, and looked at more closely than others
    expect_end spoil big.rows --data big.rows "${args[@]}" --checkpoint-every 1
    expect_from_before --data whole.rows "${args[@]}"
else
    case_ "over MPI"
    skip "needs mpirun"
fi

# ---- verbs that read once: they are stopped when the file is mapped ----

# COMMAND... reads big.rows; it is stopped when it has mapped it, and goes on when the file has been
# cut. On a busy machine it may have ended before: then once more, 50 times at most.
expect_cut()
{
    local try pid got
    for ((try = 0; try < 50; try++)); do
        cp whole.rows big.rows
        rm -rf out.* new
        got=0
        "$@" >"$OUT" 2>"$ERR" </dev/null &
        pid=$!
        until grep -qs big.rows /proc/$pid/maps || ! kill -0 $pid 2>/dev/null; do
            :
        done
        kill -STOP $pid 2>/dev/null
        cut_ big.rows
        kill -CONT $pid 2>/dev/null
        wait $pid || got=$?
        [ $got = 0 ] || break
    done
    [ "$got" = 3 ] || fail "'$*' ended with status $got, not 3"
    expect_one_sentence
    expect_err "'big.rows' changed while it was read"
    expect test -z "$(find . -name 'out.*')"
}

expect_exit 0 yoke train logreg --data whole.rows --steps 20 --run model --quiet

case_ "eval"
expect_cut yoke eval model --data big.rows
case_ "predict"
expect_cut yoke predict model --data big.rows -o out.csv
case_ "data info"
expect_cut yoke data info big.rows
case_ "data convert, to text and to a cache"
expect_cut yoke data convert big.rows out.libsvm
expect_cut yoke data convert big.rows out.rows
case_ "training that has not begun"
expect_cut yoke train logreg --data big.rows --quiet --run new
expect test ! -e new/summary.json

case_ "data convert, in the middle of writing"
cp whole.rows big.rows
mkfifo pipe
yoke data convert big.rows - --to libsvm --threads 1 >pipe 2>"$ERR" &
pid=$!
exec 5<pipe # it is waiting for a reader of the first rows now
read -r _ <&5
cut_ big.rows
cat <&5 >"$OUT"
exec 5<&-
got=0
wait $pid || got=$?
expect_same "$got" 3
expect_err "'big.rows' changed while it was read"
