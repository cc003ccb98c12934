#!/bin/bash
# resume.sh - a run that was killed, stopped or damaged goes on, and ends with the bits of one that
# never stopped. Kills are real and come at random moments: the bits must be right after every one.
# san-1: all of it, with two of the optimizers and shorter runs
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_mnist

seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "SEED=$seed"
RANDOM=$seed
# Steps of a run that is to be interrupted, so many that no kill comes too late.
endless=100000000
# Epochs of a run that is resumed with more to do, and a test loss to reach.
many=30 target=0.35
[ -z "$SANITIZED" ] || many=10 target=0.45

checks_of() # RUN: step and test loss of its metrics, in order
{
    sed -nE 's/^\{"step":([0-9]+),.*"test\/loss":([0-9.e-]+),.*\}$/\1 \2/p' "$1/metrics.jsonl"
}

step_of() # RUN: the step of its newest checkpoint
{
    checkpoints_of "$1" | tail -n 1 | tr -dc 0-9 | sed 's/^0*//'
}

sums_of() # RUN: the checksums of its files but log.txt, which says more after every try
{
    (cd "$1" && find . -type f ! -name log.txt -exec sha256sum {} + | sort)
}

has_checkpoint_past() # RUN STEP
{
    [ "$(step_of "$1")" -gt "$2" ]
}

has_two_checkpoints() # RUN
{
    [ "$(checkpoints_of "$1" | wc -l)" -ge 2 ]
}

# kill_again RUN: let RUN go on, and kill it after a moment. Some die while they start, some between
# two checkpoints.
kill_again()
{
    yoke train --resume "$1" >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
    moment=0.$((RANDOM % 2))$((RANDOM % 10))
    sleep "$moment"
    kill -9 $pid
    ended 137
}

# expect_same_end RUN ARGS...: RUN, told to stop a little later, ends like an undisturbed run with
# ARGS.
expect_same_end()
{
    local run=$1 end key
    shift
    end=$(($(step_of "$run") + 333))
    expect_exit 0 yoke train softmax "$@" --steps $end --run "$run.whole" --quiet
    expect_exit 0 yoke train --resume "$run" --steps $end
    expect_same "$(params_of "$run")" "$(params_of "$run.whole")"
    for key in global_steps examples test_loss test_accuracy stop_reason; do
        expect_same "$(json $key "$run/summary.json")" "$(json $key "$run.whole/summary.json")"
    done
}

n=0
kinds=("" "--optimizer momentum --batch 77 --seed 5" "--optimizer adagrad --eval-every 130"
    "--optimizer adam --threads 1 --lr 0.0005 --batch 60"
    "--schedule warmup:300,cosine:12000 --lr 0.1"
    "--schedule staircase:0.5:400 --batch 7000 --isa plain")
[ -z "$SANITIZED" ] || kinds=("${kinds[@]:0:2}") # the others compute other numbers in the same way
for args in "${kinds[@]}"; do
    n=$((n + 1))
    case_ "killed with -9 again and again, the same bits: ${args:-sgd}"
    # shellcheck disable=SC2086 # words
    begin "torn-$n" softmax $args --steps $endless --checkpoint-every 50 --run "torn-$n"
    kill -9 $pid
    ended 137
    expect test ! -e "torn-$n/summary.json"
    kill_again "torn-$n"
    kill_again "torn-$n"
    # shellcheck disable=SC2086
    expect_same_end "torn-$n" $args
    expect_same "$(checks_of "torn-$n")" "$(checks_of "torn-$n.whole")"
    expect test "$(checkpoints_of "torn-$n" | wc -l)" -le 3
    expect test -z "$(find "torn-$n" -name '*.tmp*')"
done

case_ "killed before its first checkpoint, a run starts over and says so"
yoke train softmax --steps $endless --run young --checkpoint-every $endless >"$OUT" 2>"$ERR" &
pid=$!
wait_until test -s young/config.json
kill -9 $pid
ended 137
expect test ! -e young/checkpoints
expect_exit 0 yoke train --resume young --steps 500
expect_err "^yoke: resuming 'young' from the start: it has no checkpoint yet"
expect_exit 0 yoke train softmax --steps 500 --run old --quiet
expect_same "$(params_of young)" "$(params_of old)"

case_ "... also one that had recorded checks by then"
yoke train softmax --steps $endless --run early --checkpoint-every $endless >"$OUT" 2>"$ERR" &
pid=$!
wait_until test -s early/metrics.jsonl
kill -9 $pid
ended 137
expect_exit 0 yoke train --resume early --steps 500
expect_err "^yoke: resuming 'early' from the start: it has no checkpoint yet"
expect_same "$(params_of early)" "$(params_of old)"

# lost RUN: its checkpoints are gone, and it is not started over
lost()
{
    local before
    before=$(sums_of "$1")
    expect_error 3 "'$1' has lost its checkpoints: it had one of step [0-9]+$" \
        yoke train --resume "$1" --steps 600
    expect_err "^hint: bring '$1/checkpoints' back"
    expect_same "$(sums_of "$1")" "$before"
}

case_ "a run that has lost its checkpoints is not started over, and nothing is changed"
begin robbed softmax --steps $endless --checkpoint-every 50 --run robbed
wait_until grep -q first_checkpoint robbed/config.json
kill -9 $pid
ended 137
cp -a robbed bare
rm robbed/checkpoints/*
rm -r bare/checkpoints
lost robbed
lost bare
cp -a old emptied # a run that ended
rm emptied/checkpoints/*
lost emptied
cp -a emptied ancient # as an older yoke left it: only its summary tells that it had checkpoints
sed -i '/"first_checkpoint"/d; s/\("run_id": "[^"]*"\),$/\1/' ancient/config.json
lost ancient
rm ancient/summary.json # now nothing tells that there were checkpoints
expect_exit 0 yoke train --resume ancient --steps 600 --quiet

case_ "a run that went on from an older yoke's checkpoint knows that it had one"
cp -a old noted
sed -i '/"first_checkpoint"/d; s/\("run_id": "[^"]*"\),$/\1/' noted/config.json
yoke train --resume noted --steps $endless --checkpoint-every $endless >"$OUT" 2>"$ERR" </dev/null &
pid=$!
wait_until grep -q '"first_checkpoint": 500' noted/config.json
kill -9 $pid
ended 137
rm noted/checkpoints/*
lost noted

case_ "a run to a target, killed half-way, ends at the same step with the same bits"
expect_exit 0 yoke train softmax --data mnist --batch 100 --lr 0.01 --target-loss $target \
    --run aim --quiet
begin aimed softmax --data mnist --batch 100 --lr 0.01 --target-loss $target \
    --checkpoint-every 100 --run aimed
kill -9 $pid
ended 137
expect_exit 0 yoke train --resume aimed
expect_same "$(params_of aimed) $(json global_steps aimed/summary.json)" \
    "$(params_of aim) $(json global_steps aim/summary.json)"
expect_same "$(json stop_reason aimed/summary.json)" target_loss

case_ "Ctrl-C saves, says so and exits 130; the run goes on from that very step"
begin polite softmax --steps $endless --checkpoint-every 50 --run polite
kill -INT $pid
ended 130
expect_same "$(json stop_reason polite/summary.json)" signal
step=$(json global_steps polite/summary.json)
expect_same "$(checkpoints_of polite | tail -n 1)" "$(printf 'step-%012d.safetensors' "$step")"
expect_err "^yoke: stopping"
expect_out "yoke train --resume polite"
expect_same_end polite
expect_err "resuming 'polite' at step $step"

case_ "SIGTERM saves and exits 143, and --json still prints its object"
begin term softmax --steps $endless --checkpoint-every 50 --run term --json
kill -TERM $pid
ended 143
expect_same "$(json stop_reason)" signal
expect_same_end term

case_ "stopped by a signal, the loss told is that of the parameters kept"
begin told softmax --steps $endless --eval-every 10000 --checkpoint-every 50 --run told --json
kill -INT $pid
ended 130
loss=$(json test_loss)
expect_exit 0 yoke eval told --json
expect_same "$(json test_loss)" "$loss"

case_ "a second signal quits at once"
begin twice softmax --steps $endless --checkpoint-every 50 --run twice
kill -STOP $pid # so that both are there when it wakes
kill -INT $pid
kill -TERM $pid
kill -CONT $pid
wait "$pid" 2>/dev/null
expect test $? -ge 130
expect test ! -e twice/summary.json
expect_exit 0 yoke train --resume twice --max-seconds 0.1

case_ "a finished run is shown again, with status 0, and not touched"
before=$(cd polite && find . -type f ! -name log.txt -exec sha256sum {} + | sort)
expect_exit 0 yoke train --resume polite
expect_err "'polite' is complete"
expect_out "xxh3 $(params_of polite)"
expect_exit 0 yoke train --resume polite --json --quiet
expect_same "$(json params_xxh3)" "$(params_of polite)"
expect_no_err
expect_same "$(cd polite && find . -type f ! -name log.txt -exec sha256sum {} + | sort)" "$before"

case_ "more --steps go on, and equal the long run"
expect_exit 0 yoke train softmax --steps 1234 --run longer --quiet
expect_exit 0 yoke train --resume longer --steps 2345 --quiet
expect_exit 0 yoke train softmax --steps 2345 --run long --quiet
expect_same "$(params_of longer)" "$(params_of long)"
expect_same "$(json global_steps longer/summary.json)" 2345

case_ "more --epochs go on, and equal the long run, from another folder too"
expect_exit 0 yoke train softmax --epochs 1 --run further --quiet
mkdir elsewhere
(cd elsewhere && expect_exit 0 yoke train --resume ../further --epochs 3 --quiet &&
    [ -z "$case_why" ]) || fail "not from another folder"
expect_exit 0 yoke train softmax --epochs 3 --run far --quiet
expect_same "$(params_of further)" "$(params_of far)"

case_ "relative paths of data and test data hold from another folder"
tiny near train 400 4 4 3
tiny test t10k 40 4 4 3
expect_exit 0 yoke train softmax --data near --test-data test --batch 7 --epochs 1 --run related \
    --quiet
(cd elsewhere && expect_exit 0 yoke train --resume ../related --epochs 2 --quiet &&
    [ -z "$case_why" ]) || fail "not from another folder"
expect_same "$(json stop_reason related/summary.json) $(json examples related/summary.json)" \
    "epochs 800"

case_ "a run that was given more to do and then killed is not complete"
expect_exit 0 yoke train softmax --epochs 1 --run twin --quiet
yoke train --resume twin --epochs $many --checkpoint-every 50 >"$OUT" 2>"$ERR" </dev/null &
pid=$!
wait_until has_checkpoint_past twin 600
kill -9 $pid
ended 137
expect_exit 0 yoke train --resume twin --json
expect_same "$(json global_steps) $(json stop_reason)" "$((many * 600)) epochs"

case_ "a stop rule given to --resume replaces those the run had"
expect_exit 0 yoke train softmax --run default --quiet # ten epochs, 6,000 steps
expect_exit 0 yoke train --resume default --steps 7000 --json --quiet
expect_same "$(json global_steps) $(json stop_reason)" "7000 steps"
expect_exit 0 yoke train softmax --max-seconds 0.05 --run brief --quiet
expect_exit 0 yoke train --resume brief --epochs $many --json --quiet
expect_same "$(json global_steps) $(json stop_reason)" "$((many * 600)) epochs"

case_ "runs/latest can be resumed, and its run keeps its own name"
expect_exit 0 yoke train softmax --epochs 1 --quiet
expect_exit 0 yoke train --resume runs/latest --epochs 2 --json --quiet
expect_same "$(json run)" "runs/$(readlink runs/latest)"

case_ "a run in which another process trains is refused, and not disturbed"
begin busy softmax --steps $endless --checkpoint-every 50 --run busy
expect_error 2 "another process is training in 'busy'" yoke train --resume busy
expect_error 2 "another process is training in 'busy'" yoke train --resume busy --steps 10
expect_exit 0 yoke eval busy
kill -INT $pid
ended 130

case_ "options that would change the run are refused; those of stopping, looking, computing are not"
for args in "--batch 10" "--lr 1" "--seed 2" "--optimizer adam" "--schedule cosine:10" \
    "--momentum 0.5" "--data fashion-mnist"; do
    # shellcheck disable=SC2086
    expect_error 2 "${args% *} cannot be changed" yoke train --resume far $args
done
expect_error 3 "no run folder 'nowhere'" yoke train --resume nowhere
expect_error 3 "'elsewhere' is not a run folder" yoke train --resume elsewhere
expect_exit 0 yoke train --resume far --epochs 4 --eval-every 50 --checkpoint-every 1s --keep 1 \
    --threads 1
expect_same "$(checkpoints_of far | wc -l)" 1

case_ "a yoke.ini beside it does not change a resumed run"
expect_exit 0 yoke train softmax --steps 500 --run calm --quiet
printf 'batch = 7\nseed = 3\nsteps = 5\n' >yoke.ini
expect_exit 0 yoke train --resume calm --steps 1000 --quiet
echo 'shuffle-buffer = 500' >yoke.ini # config.json does not name this option
expect_exit 0 yoke train --resume calm --steps 1500 --quiet
mkdir -p "$XDG_CONFIG_HOME/yoke"
mv yoke.ini "$XDG_CONFIG_HOME/yoke/yoke.ini" # the user's own file is not read either
expect_exit 0 yoke train --resume calm --steps 2345 --quiet
rm "$XDG_CONFIG_HOME/yoke/yoke.ini"
expect_same "$(params_of calm)" "$(params_of long)"

case_ "--resume --dry-run shows the plan of that run and changes nothing"
expect_exit 0 yoke train --resume torn-2 --steps $endless --dry-run
expect_out '^model +softmax, 7850 parameters'
expect_out '^steps +of 77 examples, 780 an epoch, seed 5'
expect_out "after $endless steps"
# nothing is left to do; the plan must be right all the same
expect_exit 0 yoke train --resume torn-2 --dry-run
expect_out '^model +softmax, 7850 parameters'

# damage FILE HOW
damage()
{
    local size
    size=$(stat -c %s "$1")
    case $2 in
    empty) : >"$1" ;;
    truncated) truncate -s $((size - 100)) "$1" ;;
    "cut in its header") truncate -s 5 "$1" ;;
    "with a flipped byte") # in the middle of the tensors
        printf '%b' "\\x$(printf %02x $((0x$(xxd_byte "$1" $((size / 2))) ^ 64)))" |
            dd of="$1" bs=1 seek=$((size / 2)) conv=notrunc status=none ;;
    "with a flipped letter in its header") printf 'X' | dd of="$1" bs=1 seek=20 conv=notrunc \
        status=none ;;
    "with a longer tail") echo more >>"$1" ;;
    "that is noise") head -c "$size" /dev/urandom >"$1" ;;
    esac
}

xxd_byte() # FILE OFFSET: the byte in hex
{
    od -An -tx1 -j "$2" -N 1 "$1" | tr -d ' '
}

begin template softmax --steps $endless --checkpoint-every 50 --run template
wait_until has_two_checkpoints template
kill -9 $pid
ended 137
end=$(($(step_of template) + 333))
expect_exit 0 yoke train softmax --steps $end --run undamaged --quiet
for how in empty truncated "cut in its header" "with a flipped byte" \
    "with a flipped letter in its header" "with a longer tail" "that is noise"; do
    case_ "a newest checkpoint $how is passed over, and the bits are the same"
    rm -rf hurt
    cp -a template hurt
    newest=$(newest_of hurt)
    damage "$newest" "$how"
    expect_exit 0 yoke train --resume hurt --steps "$end" --json
    expect_err "^yoke: warning: .*$newest.*falling back"
    expect_same "$(json params_xxh3)" "$(params_of undamaged)"
done

case_ "with every checkpoint damaged it stops with one sentence, and nothing more is broken"
rm -rf hurt
cp -a template hurt
for file in hurt/checkpoints/*.safetensors; do
    damage "$file" truncated
done
before=$(cd hurt/checkpoints && sha256sum ./*)
expect_exit 3 yoke train --resume hurt --steps "$end"
expect_no_out
expect_err "^yoke: no whole checkpoint in 'hurt/checkpoints': [0-9]+ found, all damaged$"
expect_same "$(grep -c '^yoke: warning' "$ERR")" "$(checkpoints_of hurt | wc -l)"
expect_same "$(cd hurt/checkpoints && sha256sum ./*)" "$before"
expect_exit 3 yoke eval hurt
expect_err "all damaged"

case_ "a checkpoint of another run is refused, not passed over, and nothing is changed"
expect_exit 0 yoke train softmax --steps 300 --checkpoint-every 100 --run mine --quiet
for args in "--seed 5" "--optimizer momentum" "--lr 0.5 --batch 10" ""; do
    rm -rf theirs mixed
    cp -a mine mixed
    # shellcheck disable=SC2086 # words
    expect_exit 0 yoke train softmax --steps 400 $args --run theirs --quiet
    cp theirs/checkpoints/step-000000000400.safetensors mixed/checkpoints/
    before=$(sums_of mixed)
    case $args in
    --seed*) why='its seed is 5, config.json says 1' ;;
    --opt*) why='its optimizer is momentum, config.json says sgd' ;;
    *) why='its run_id is [0-9a-f]{16}, config.json says [0-9a-f]{16}' ;;
    esac
    expect_error 3 \
        "'mixed/checkpoints/step-000000000400.safetensors' belongs to another run: $why$" \
        yoke train --resume mixed --steps 500
    expect_same "$(sums_of mixed)" "$before"
done
rm mixed/checkpoints/step-000000000400.safetensors
expect_exit 0 yoke train --resume mixed --steps 500 --quiet

case_ "a copied folder is the same run, under any name"
cp -a mine copy
expect_exit 0 yoke train --resume copy --steps 500 --quiet
cp copy/checkpoints/step-000000000500.safetensors mine/checkpoints/
expect_exit 0 yoke train --resume mine --steps 600 --quiet
expect_exit 0 yoke train softmax --steps 600 --run unmixed --quiet
expect_same "$(params_of mine)" "$(params_of unmixed)"

case_ "a seed that was changed in config.json is refused"
sed -i 's/"seed": 1,/"seed": 2,/' copy/config.json
expect_error 3 "belongs to another run: its seed is 1, config.json says 2" \
    yoke train --resume copy --steps 700

case_ "data that changed since is refused, and the run is as it was"
tiny digits train 400 4 4 3
expect_exit 0 yoke train softmax --data digits --batch 7 --epochs 2 --run changed --quiet
before=$(cd changed && find . -type f ! -name log.txt -exec sha256sum {} + | sort)
printf '\x01' | dd of=digits/train-images-idx3-ubyte bs=1 seek=100 conv=notrunc status=none
expect_exit 3 yoke train --resume changed --epochs 3
expect_no_out
expect_err "^yoke: the data '.*digits' has changed since"
expect_same "$(cd changed && find . -type f ! -name log.txt -exec sha256sum {} + | sort)" "$before"
rm -r digits
expect_error 3 "digits" yoke train --resume changed --epochs 3

case_ "a stop rule that lies behind the run is refused, and the run is as it was"
tiny small train 400 4 4 3
expect_exit 0 yoke train softmax --data small --batch 7 --epochs 3 --run behind --quiet
before=$(cd behind && find . -type f ! -name log.txt -exec sha256sum {} + | sort)
expect_error 2 "already, past the end that the stop rule sets" yoke train --resume behind --epochs 2
expect_same "$(cd behind && find . -type f ! -name log.txt -exec sha256sum {} + | sort)" "$before"

case_ "--config FILE may say on resume what the command line may, and nothing else"
echo 'epochs = 4' >more.ini
echo 'batch = 8' >other.ini
expect_error 2 "--batch cannot be changed" yoke train --resume behind --config other.ini
expect_exit 0 yoke train --resume behind --config more.ini --json --quiet
expect_same "$(json epochs)" "4.0"

case_ "a run stopped by a signal and resumed leaves the curve of one that was not"
expect_exit 0 yoke train softmax --data small --batch 7 --steps 3000 --eval-every 1000 \
    --run straight --quiet
yoke train softmax --data small --batch 7 --steps 30000000 --eval-every 1000 --run bent \
    --quiet >"$OUT" 2>"$ERR" &
pid=$!
wait_until test -s bent/metrics.jsonl
kill -INT $pid
ended 130
at=$(json global_steps bent/summary.json)
expect test "$at" -gt 0
whole=$(((at / 1000 + 1) * 1000))
expect_exit 0 yoke train --resume bent --steps "$whole" --quiet
expect_exit 0 yoke train softmax --data small --batch 7 --steps "$whole" --eval-every 1000 \
    --run flat --quiet
curve() { sed -E 's/"seconds":[^,]*,//; s/,"steps_per_second":[^}]*//' "$1/metrics.jsonl"; }
expect_same "$(curve bent | sha256sum)" "$(curve flat | sha256sum)"
