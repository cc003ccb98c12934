#!/bin/bash
# train.sh - 'yoke train' as a user meets it: its output, the files of a run, the ways to stop, the
# sources of options, and the answers to options that cannot work.
# san-1: all of it, with one wrong value for each option that takes a number
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_mnist
need_command script
tool json_check

# Without a terminal a run prints a line every ten seconds. This run is in the background, stopped
# for most of that time; the last case of the script looks at its lines.
mkdir slow
hundredths() # since the machine started, by a clock that cannot be set
{
    local up
    read -r up _ </proc/uptime
    echo "${up/./}"
}
started=$(hundredths)
(cd slow && exec yoke train softmax --steps 100000000 --eval-every 5s >out 2>err) &
slow=$!
(sleep 0.5 && kill -STOP $slow && sleep 8 && kill -CONT $slow) &
waker=$!
has_line() # the first line has come; when, is then in $came
{
    grep -q '^yoke: step ' slow/err && came=$(hundredths)
}

case_ "the target is reached near step 7,100 with 90.6 %; --json prints one object with every key"
expect_exit 0 yoke train softmax --data mnist --batch 100 --lr 0.01 --target-loss 0.35 --json
json_check schema version run model data mode workers ps hosts batch global_batch shards threads \
    seed optimizer lr global_steps examples seconds startup_seconds eval_seconds steps_per_second \
    examples_per_second train_loss test_loss test_accuracy stop_reason target_seconds \
    stale_dropped staleness.mean staleness.p99 staleness.max staleness.histogram restarts \
    reproducible peak_rss_bytes params_xxh3 workers_detail.0.rank workers_detail.0.host \
    workers_detail.0.steps workers_detail.0.examples workers_detail.0.seconds \
    workers_detail.0.bytes_sent workers_detail.0.bytes_received workers_detail.0.phases.input \
    workers_detail.0.phases.pull workers_detail.0.phases.compute workers_detail.0.phases.push \
    workers_detail.0.phases.wait <"$OUT" >"$ERR" || fail "$(head -n 1 "$ERR")"
expect_same "$(json stop_reason)" target_loss
steps=$(json global_steps)
expect test "$steps" -ge 6800 -a "$steps" -le 7500 -a $((steps % 100)) = 0
expect_same "$(json examples)" "$((steps * 100))"
expect test "$(json test_accuracy | cut -c1-4)" = 0.90
expect awk "BEGIN { exit !($(json test_loss) <= 0.35) }"
expect awk "BEGIN { exit !($(json target_seconds) <= $(json seconds)) }"
expect_same "$(json reproducible)" true
expect grep -qE '^[0-9a-f]{16}$' <<<"$(json params_xxh3)"
expect_same "$(json params_xxh3)" "$(params_of runs/latest)"

case_ "a reached target ends with the parameters of that very check"
hash=$(json params_xxh3) loss=$(json test_loss)
expect_same "$(checkpoints_of runs/latest)" "$(printf 'step-%012d.safetensors' "$steps")"
expect_exit 0 yoke eval runs/latest --json
expect_same "$(json params_xxh3)" "$hash"
expect_same "$(json test_loss)" "$loss"
expect_same "$(json global_steps)" "$steps"

case_ "the same command gives the same bits, whatever runs beside it"
expect_exit 0 yoke train softmax --data mnist --batch 100 --lr 0.01 --target-loss 0.35 --json \
    --quiet
expect_same "$(json params_xxh3)" "$hash"
expect_no_err

case_ "a run folder has its parts, a dated name that is not used again, and a link to the newest"
day=$(date +%Y%m%d)
expect test -d "runs/softmax-local-$day-1" -a -d "runs/softmax-local-$day-2"
expect_same "$(readlink runs/latest)" "softmax-local-$day-2"
for file in runs/latest/{config.json,ranks.json,summary.json,metrics.jsonl} \
    runs/latest/checkpoints/step-*.safetensors runs/latest/events/worker-0/events.out.tfevents.*; do
    expect test -s "$file"
done
expect test -e runs/latest/log.txt
expect json_check model data batch lr seed optimizer target-loss threads isa version \
    <runs/latest/config.json
expect json_check ranks.0.rank ranks.0.role ranks.0.host ranks.0.pid <runs/latest/ranks.json
expect json_check params_xxh3 workers_detail.0.phases.wait <runs/latest/summary.json
while read -r line; do
    expect json_check step seconds examples train/loss test/loss test/accuracy lr steps_per_second \
        <<<"$line"
done <<<"$(head -n 3 runs/latest/metrics.jsonl)"
expect_same "$(grep -oE '"step":[0-9]+' runs/latest/metrics.jsonl | tr -d '\n')" \
    "$(seq -f '"step":%g' 100 100 "$steps" | tr -d '\n')"

case_ "eight starts at once get eight folders"
mkdir at-once
pids=
for _ in 1 2 3 4 5 6 7 8; do
    (cd at-once && exec yoke train softmax --steps 2 --batch 10 --quiet >/dev/null 2>&1) &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || fail "one of them ended with status $?"
done
expect_same "$(find at-once/runs -mindepth 1 -maxdepth 1 | sed 's/.*-\([0-9]*\)$/\1/' | sort |
    tr '\n' ' ')" "1 2 3 4 5 6 7 8 at-once/runs/latest "
expect test -e at-once/runs/latest/summary.json

case_ "--run names the folder, makes its parents, and never reuses one"
expect_exit 0 yoke train softmax --steps 2 --run deep/er/mine --quiet
expect test -e deep/er/mine/summary.json
expect_error 2 "'deep/er/mine' exists already" yoke train softmax --steps 2 --run deep/er/mine
mkdir empty
expect_error 2 "'empty' exists already" yoke train softmax --steps 2 --run empty/
expect test -z "$(ls empty)"

case_ "without --json it prints a table of at most 80 columns that ends with the run's folder"
expect_exit 0 yoke train softmax --steps 300
expect_out '^ +step +time +epoch +train loss +test loss +accuracy$'
expect_out '^ +300 .*%'
expect_out '\b300 steps\b'
expect_out '^  params +7,850 floats, xxh3 [0-9a-f]{16}$'
expect_out "^  run +runs/softmax-local-$day-[0-9]+$"
expect test -z "$(LC_ALL=C.UTF-8 grep -E '.{81}' "$OUT")"

case_ "the table ends with the last check"
expect_exit 0 yoke train softmax
expect_out '^ +6,000 .*%'

case_ "first rule that holds wins: steps"
expect_exit 0 yoke train softmax --steps 50 --epochs 1 --max-seconds 60 --target-loss 0.01 --json \
    --quiet
expect_same "$(json stop_reason) $(json global_steps)" "steps 50"
expect_no_err

case_ "first rule that holds wins: epochs, the last partial batch included"
expect_exit 0 yoke train softmax --steps 5000 --epochs 2 --batch 7000 --json --quiet
expect_same "$(json stop_reason) $(json global_steps) $(json examples)" "epochs 18 120000"

case_ "first rule that holds wins: accuracy"
expect_exit 0 yoke train softmax --target-loss 0.01 --target-accuracy 0.85 --json --quiet
expect_same "$(json stop_reason)" target_accuracy
expect awk "BEGIN { exit !($(json test_accuracy) >= 0.85) }"

case_ "first rule that holds wins: seconds, and the summary says that the clock ended it"
expect_exit 0 yoke train softmax --steps 100000000 --max-seconds 0.3 --json --quiet
expect_same "$(json stop_reason) $(json reproducible)" "max_seconds false"
expect awk "BEGIN { exit !($(json seconds) >= 0.3 && $(json seconds) < 30) }" # machines may stop

case_ "--eval-every takes steps, examples and seconds, and the last step is always looked at"
expect_exit 0 yoke train softmax --steps 20 --eval-every 7 --run seven --quiet
expect_same "$(grep -oE '"step":[0-9]+' seven/metrics.jsonl | tr '\n' ' ')" \
    '"step":7 "step":14 "step":20 '
expect_exit 0 yoke train softmax --steps 20 --batch 50 --eval-every 300ex --run examples --quiet
expect_same "$(grep -oE '"step":[0-9]+' examples/metrics.jsonl | tr '\n' ' ')" \
    '"step":6 "step":12 "step":18 "step":20 '
yoke train softmax --steps 100000000 --eval-every 0.1s --run seconds --quiet >"$OUT" 2>"$ERR" &
pid=$!
# shellcheck disable=SC2016 # evaluated each time
wait_until eval 'test "$(cat seconds/metrics.jsonl 2>/dev/null | wc -l)" -ge 5'
kill -INT $pid
ended 130
# However slow the machine: one check for each tenth of a second at most, and the last.
seconds=$(sed -nE '$s/.*"seconds":([0-9.e+-]+).*/\1/p' seconds/metrics.jsonl)
expect awk "BEGIN { exit !($(wc -l <seconds/metrics.jsonl) <= $seconds * 10 + 2) }"

case_ "--keep N keeps the newest N checkpoints"
expect_exit 0 yoke train softmax --steps 3000 --checkpoint-every 20 --keep 2 --run two --quiet
expect_same "$(checkpoints_of two | wc -l)" 2
expect_same "$(checkpoints_of two | tail -n 1)" step-000000003000.safetensors
expect test -z "$(find two -name '*.tmp*')"

case_ "every optimizer and every schedule lowers the loss"
for args in "--optimizer momentum" "--optimizer adagrad" "--optimizer adam" \
    "--schedule staircase:0.5:200" "--schedule exponential:0.9:100" "--schedule cosine:600" \
    "--schedule cosine:600:0.1" "--schedule warmup:100,cosine:600"; do
    # shellcheck disable=SC2086 # words
    expect_exit 0 yoke train softmax --epochs 1 $args --json --quiet
    expect awk "BEGIN { exit !($(json test_loss) < 1.1) }"
done

case_ "a schedule's rate is in the metrics"
expect_exit 0 yoke train softmax --steps 400 --lr 0.08 --schedule warmup:100,staircase:0.5:200 \
    --run stairs --quiet
expect_same "$(sed -nE 's/.*"lr":([^,]*).*/\1/p' stairs/metrics.jsonl | tr '\n' ' ')" \
    "0.08 0.04 0.04 0.02 "

case_ "other thread counts find the same model"
for threads in 1 4; do
    expect_exit 0 yoke train softmax --steps 1000 --threads $threads --json --quiet
    expect awk "BEGIN { l = $(json test_loss); exit !(l > 0.58 && l < 0.60) }"
done

cpu_has() # FLAG...: according to the kernel
{
    local flag
    for flag; do
        grep -qE "^flags\s*:.* $flag( |\$)" /proc/cpuinfo || return 1
    done
}
declare -A needs=([plain]='' [avx2]='avx2 fma bmi1 bmi2' \
    [avx512]='avx2 fma bmi1 bmi2 avx512f avx512bw avx512dq avx512vl')
for isa in plain avx2 avx512; do
    case_ "the kernels of $isa find the same model"
    # shellcheck disable=SC2086 # words
    if cpu_has ${needs[$isa]}; then
        expect_exit 0 yoke train softmax --steps 1000 --isa $isa --json --quiet
        expect awk "BEGIN { l = $(json test_loss); exit !(l > 0.58 && l < 0.60) }"
    else
        expect_error 2 "--isa: this CPU cannot run '$isa'" yoke train softmax --steps 1000 \
            --isa $isa
        skip "this CPU lacks $isa"
    fi
done

case_ "fashion-mnist trains"
if [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
    expect_exit 0 yoke train softmax --data fashion-mnist --epochs 2 --json --quiet
    expect_same "$(json data)" fashion-mnist
    expect awk "BEGIN { a = $(json test_accuracy); exit !(a > 0.75 && a < 0.86) }"
else
    skip "dataset-fashion-mnist is not installed"
fi

case_ "a folder of IDX files trains, and without test files only the training loss is there"
tiny digits train 40 4 4 3
expect_exit 0 yoke train softmax --data digits --batch 7 --epochs 2 --json --quiet
expect_same "$(json global_steps) $(json examples) $(json test_loss)" "12 80 null"
expect_error 2 "a target needs test data" yoke train softmax --data digits --batch 7 \
    --target-loss 0.1
tiny digits t10k 9 4 4 3
expect_exit 0 yoke train softmax --data digits --batch 7 --epochs 2 --json --quiet
expect awk "BEGIN { exit !($(json test_loss) > 0) }"

rm -rf runs
case_ "combinations that cannot be are refused before anything is made"
tiny wide t10k 9 5 4 3
tiny many t10k 20 4 4 9
expect_error 2 "'wide' .5x4x1, 3 classes. does not fit '.*digits' .4x4x1, 3 classes." \
    yoke train softmax --data digits --test-data wide --batch 7
expect_error 2 "'many' .*9 classes.* does not fit '.*digits'" yoke train softmax --data digits \
    --test-data many --batch 7
expect_error 2 "batch 41 is more than the 40 examples of '.*digits'" \
    yoke train softmax --data digits --batch 41
expect_error 2 "--quiet and --verbose" yoke train softmax --quiet --verbose
expect_error 2 "--run and --resume" yoke train --run a --resume deep/er/mine
expect_error 2 "leave out 'softmax'" yoke train softmax --resume deep/er/mine
expect_error 2 "which model" yoke train --data mnist
expect_error 2 "'more'" yoke train softmax more
expect_no_runs

case_ "a number that is none, for every option that takes one"
numbers=$(yoke help train | sed -nE 's/^ +(-., )?--([a-z0-9-]+) (N|X)( .*|$)/\2/p')
expect test "$(wc -w <<<"$numbers")" -ge 14
values=(some '' 12x nan inf -5 1e999 --quiet)
[ -z "$SANITIZED" ] || values=(1e999) # one way through the code
for name in $numbers; do
    for value in "${values[@]}"; do
        expect_error 2 "--$name" yoke train softmax "--$name" "$value"
    done
    expect_error 2 "--$name needs a value" yoke train softmax "--$name"
done
expect_no_runs

case_ "values out of range are told the range"
for pair in batch=0 batch=1000001 lr=0 lr=1e7 momentum=1 beta2=1 eps=0 steps=0 epochs=0 \
    target-loss=0 target-accuracy=90 max-seconds=0 keep=0 threads=0 threads=1000 seed=1e17; do
    expect_error 2 "--${pair%=*}: ${pair#*=} is out of range: .* to " yoke train softmax "--$pair"
done
for pair in batch=1.5 steps=0.5 keep=2.5 seed=0.1; do
    expect_error 2 "--${pair%=*}: '${pair#*=}' is not a whole number" yoke train softmax "--$pair"
done
for value in 0 1.5 10m -3 5exx ex s 100q 0s; do
    expect_error 2 "--eval-every: '$value' is not an interval" \
        yoke train softmax --eval-every "$value"
    expect_error 2 "--checkpoint-every: '$value' is not an interval" \
        yoke train softmax --checkpoint-every "$value"
done
expect_no_runs

case_ "words that are not among the choices"
expect_error 2 "--optimizer: 'sdg' is none of sgd.momentum.adagrad.adam" \
    yoke train softmax --optimizer sdg
expect_error 2 "--isa: 'mmx' is none of" yoke train softmax --isa mmx
for shape in steps staircase staircase:0.5 staircase:0.5:0 exponential:x:10 cosine cosine:0 \
    warmup:10,steps warmup:x,constant ''; do
    expect_error 2 "--schedule" yoke train softmax --schedule "$shape"
done
expect_error 2 "--quiet: 'maybe' is not true or false" yoke train softmax --quiet=maybe
expect_error 2 "--data: the value is empty" yoke train softmax --data ''
expect_no_runs

case_ "mistyped options, verbs and models are answered with the right ones"
expect_error 2 "unknown option '--bach'" yoke train softmax --data mnist --bach 10
expect_err "^hint: did you mean '--batch'\?"
expect_error 2 "unknown option '--optimiser'" yoke train softmax --optimiser adam
expect_err "'--optimizer'"
expect_error 2 "unknown option '--frobnicate'" yoke train softmax --frobnicate
expect_err "^hint: 'yoke help train'"
expect_error 2 "unknown option '-z'" yoke train softmax -z
expect_error 2 "takes no option '--output'" yoke train softmax --output x
expect_error 2 "'trian' is not a verb" yoke trian softmax
expect_err "^hint: did you mean 'yoke train'\?"
expect_error 2 "unknown model 'sofmax'" yoke train sofmax
expect_err "^hint: did you mean 'softmax'\?"
expect_error 2 "'.*' is not a verb" yoke "$(printf 'x%.0s' {1..5000})"
expect_no_runs

case_ "yoke alone explains itself on stderr and is a mistake; asked for, it is an answer on stdout"
expect_exit 2 yoke
expect_no_out
expect_err '^usage: yoke VERB'
expect_err '^  train '
expect_exit 0 yoke --help
expect_out '^usage: yoke VERB'
expect_no_err

case_ "a flag wins over ./yoke.ini, and that over the user's"
mkdir -p "$XDG_CONFIG_HOME/yoke"
printf 'batch = 30\nseed = 30\nlr = 0.03\n' >"$XDG_CONFIG_HOME/yoke/yoke.ini"
printf '; a comment\nbatch = 20\n[train]\nseed = 20\n[eval]\nthreads = 1\n' >yoke.ini
expect_exit 0 yoke train softmax --steps 2 --batch 10 --json
expect_same "$(json batch) $(json seed) $(json lr)" "10 20 0.03"
printf 'batch = 25\nseed = 25\n' >other.ini
expect_exit 0 yoke train softmax --steps 2 --batch 10 --config other.ini --json
expect_same "$(json batch) $(json seed) $(json lr)" "10 25 0.03"
mkdir -p "$tmp/home/.config/yoke"
echo 'batch = 35' >"$tmp/home/.config/yoke/yoke.ini"
rm yoke.ini
cache=${XDG_CACHE_HOME:-$HOME/.cache}
expect_exit 0 env -u XDG_CONFIG_HOME HOME="$tmp/home" XDG_CACHE_HOME="$cache" \
    yoke train softmax --steps 2 --json
expect_same "$(json batch)" 35
rm -r "$XDG_CONFIG_HOME/yoke" runs

case_ "a mistake in yoke.ini is told with file and line, even where the option is another verb's"
while IFS='|' read -r text regex; do
    # shellcheck disable=SC2059
    printf "$text" >yoke.ini
    expect_error 2 "$regex" yoke train softmax --steps 2
done <<'END'
batch = x\n|'yoke.ini' line 1: --batch: 'x'
seed = 1\nbach = 10\n|'yoke.ini' line 2: unknown option '--bach'
[trian]\nbatch = 10\n|'yoke.ini' line [12]: \[trian\]
[train\nbatch = 10\n|'yoke.ini' line 1
batch\n|'yoke.ini' line 1
run = mine\n|'yoke.ini' line 1: 'run' belongs on the command line
[eval]\nbatch = 10\n|'yoke.ini' line 2: 'yoke eval' takes no option 'batch'
batch = 10\0\n|'yoke.ini' is not text
END
{ printf 'data = ' && printf 'x%.0s' {1..5000}; } >yoke.ini
expect_error 2 "'yoke.ini' line 1 is longer" yoke train softmax
expect_no_runs

case_ "help does not need a yoke.ini that can be read"
expect_exit 0 yoke help train
expect_exit 0 yoke help
rm yoke.ini

case_ "--dry-run shows the plan and makes nothing"
expect_exit 0 yoke train softmax --batch 50 --epochs 3 --dry-run
expect_out '^model +softmax, 7850 parameters'
expect_out '^data +mnist: 60000 training and 10000 test examples of 28x28x1, 10 classes'
expect_out '^steps +of 50 examples, 1200 an epoch'
expect_out '^stops +after 3 epochs'
expect_error 2 "batch" yoke train softmax --batch 60001 --dry-run
expect_no_runs

case_ "--dry-run --json is one object, too"
expect_exit 0 yoke train softmax --batch 50 --dry-run --json
expect json_check <"$OUT"
expect_no_runs

case_ "training that diverges says so, and what to try"
expect_error 1 "diverged" yoke train softmax --schedule exponential:10:1 --steps 500 --quiet
expect_err '^hint: .*--lr'

case_ "a model that only the last step broke is no success, and the checkpoint before it stays"
for mode in "local" "sync --workers 2" "async --workers 2" "allreduce --workers 2"; do
    rm -rf broken
    # shellcheck disable=SC2086 # words
    expect_error 1 "training diverged: the test loss of step 4 is not a number" \
        yoke train softmax --lr 1e6 --optimizer momentum --l2 1e6 --steps 4 --checkpoint-every 1 \
        --run broken --quiet --mode $mode
    expect_err '^hint: .*--lr'
    expect test ! -e broken/summary.json
    expect test -z "$(find broken -name '*.tmp*' -o -name 'step-000000000004*')"
    expect_exit 0 yoke eval broken
done

terminal() # COMMAND: run it on a terminal, with its output in $OUT
{
    script -qec "$1" typescript </dev/null >"$OUT" 2>&1
}

case_ "on a terminal there is a bar, wiped at the end"
terminal 'yoke train softmax --max-seconds 0.6 >/dev/null'
expect grep -q $'\r\033\[K.*━.*─.* %  step [0-9]* ' "$OUT"
expect test "$(tr '\r' '\n' <"$OUT" | grep . | tail -n 1)" = $'\033[K'

case_ "--quiet has no bar"
terminal 'yoke train softmax --max-seconds 0.4 --quiet >/dev/null'
expect_no_out

case_ "errors are red on a terminal, unless NO_COLOR is set"
terminal 'yoke trian'
expect grep -q $'^\033\[31myoke: ' "$OUT"
NO_COLOR=1 terminal 'yoke trian'
expect_out "^yoke: 'trian'"
expect test -z "$(grep -F $'\033' "$OUT")"
TERM=dumb NO_COLOR=1 terminal 'yoke train softmax --max-seconds 0.4 >/dev/null'
expect test -z "$(grep -E $'\033\[[0-9;]*m' "$OUT")"

case_ "a table in colourless UTF-8 goes to a pipe as to a file"
expect_exit 0 bash -c 'yoke train softmax --steps 100 --quiet | cat'
expect test -z "$(grep -F $'\033' "$OUT")"

case_ "without a terminal there is one plain line every ten seconds, and no bar"
wait_until has_line
wait "$waker"
kill -INT "$slow"
pid=$slow
ended 130
cp slow/out "$OUT"
cp slow/err "$ERR"
expect_err '^yoke: step [0-9]*  epoch [0-9.]*  train .* steps/s$'
expect test $((${came:-0} - started)) -ge 999
expect test "$(grep -c '^yoke: step ' "$ERR")" -le $((($(hundredths) - started + 1) / 1000))
expect test -z "$(grep -F $'\033' "$ERR")"
