#!/bin/bash
# logreg.sh - sparse logistic regression as a user meets it: progressive loss, held-out rows, every
# format, stops and resumes, uses of a trained model, and refusals.
# san-1: all of it
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
private_cache
tool npz_reader
data=synth-criteo:100000:10000

of() # KEY RUN: of its summary
{
    json "$1" "$2/summary.json"
}

close_to() # A B PERCENT
{
    awk -v a="$1" -v b="$2" -v p="$3" \
        'BEGIN { exit !(a > 0 && b > 0 && a / b - 1 <= p / 100 && b / a - 1 <= p / 100) }'
}

# --- progressive loss ---

rows_said() # the third column of the lines about progressive loss
{
    sed -nE 's/^yoke: +[0-9.]+ +[0-9.]+ +([0-9]+) +[0-9]+$/\1/p' "$ERR" | tr '\n' ' '
}

case_ "the progressive loss is said at powers of two, on standard error"
expect_exit 0 yoke train logreg --data synth-criteo:1000:600 --batch 1 --run ones --json
expect_err '^yoke: +average +since +rows +features$'
expect_same "$(rows_said)" "1 2 4 8 16 32 64 128 256 512 "
expect_err '^yoke:   0\.693147   0\.693147              1           39$'
# The average since the last line fits both averages: a(2n) = (a(n) + since) / 2.
# shellcheck disable=SC2016 # awk's
expect awk '$1 == "yoke:" && $4 ~ /^[0-9]+$/ {
    if (rows && ($2 - (last + $3) / 2) ^ 2 > 1e-11) exit 1; rows = $4; last = $2 }' "$ERR"
expect_same "$(json progressive_loss)" "$(of progressive_loss ones)"
expect_same "$(json test_loss)" null

case_ "... at the first step that has come so far, if a step is longer than a row"
expect_exit 0 yoke train logreg --data synth-criteo:1000:600 --batch 30 --run thirties
expect_same "$(rows_said)" "30 60 90 150 270 540 "
expect_out '^  progress  loss 0\.[0-9]+ on rows before they were learnt'

case_ "... and not with --quiet; with test data only if it is asked for"
expect_exit 0 yoke train logreg --data synth-criteo:1000:600 --quiet
expect_no_err
expect_exit 0 yoke train logreg --data synth-criteo:1000:600 --holdout 0.2
expect_same "x$(rows_said)" x
expect_exit 0 yoke train logreg --data synth-criteo:1000:600 --holdout 0.2 --progressive --batch 1
expect_same "$(rows_said)" "1 2 4 8 16 32 64 128 256 512 "

# --- evaluation ---

case_ "--holdout: every 20000ex, with AUC, precision and recall"
expect_exit 0 yoke train logreg --data $data --holdout 0.1 --eval-every 20000ex --json --quiet \
    --run held
expect_no_err
expect_same "$(json examples) $(json global_steps) $(json stop_reason)" "90000 900 epochs"
checks='s/.*"examples":([0-9]+),.*"test\/loss":0\.4[0-9]+,.*"test\/auc":0\.[78].*/\1/p'
expect_same "$(sed -nE "$checks" held/metrics.jsonl | tr '\n' ' ')" "20000 40000 60000 80000 90000 "
expect awk -v loss="$(json test_loss)" -v auc="$(json test_auc)" -v p="$(json test_precision)" \
    -v r="$(json test_recall)" \
    'BEGIN { exit !(loss > 0.40 && loss < 0.45 && auc > 0.79 && auc < 0.86 &&
        p > 0.55 && p < 0.8 && r > 0.3 && r < 0.6) }'

case_ "yoke eval agrees with the last evaluation of the training, by default on held-out rows"
expect_exit 0 yoke eval held --json
for key in test_loss test_accuracy test_auc test_precision test_recall params_xxh3; do
    expect_same "$(json $key)" "$(of $key held)"
done
expect_same "$(json examples)" 10000
expect_exit 0 yoke eval held
expect_out 'loss 0\.4[0-9]+, accuracy [0-9.]+ % \([0-9]+ of 10000\)'
expect_out '^AUC 0\.8[0-9]+, precision [0-9.]+ %, recall [0-9.]+ %$'
printf '0 3:1\n0 4:1\n' >zeros.libsvm # nothing is labelled 1, so there is no recall and no pair
expect_exit 0 yoke eval held --data zeros.libsvm
expect_out '\(. of 2\)'
grep -qi nan "$OUT" && fail "$(grep -i nan "$OUT")"

case_ "batches of evaluation bound its memory, and change nothing else"
for size in 1 20 100000; do
    expect_exit 0 yoke train logreg --data $data --holdout 0.1 --eval-every 20000ex \
        --test-batch $size --quiet --run "held-$size"
    expect_same "$(params_of "held-$size")" "$(params_of held)"
    for key in test_loss test_accuracy test_auc test_precision test_recall; do
        expect_same "$(of $key "held-$size" | cut -c1-10)" "$(of $key held | cut -c1-10)"
    done
done
expect_exit 0 yoke eval held --test-batch 7 --json
expect_same "$(json test_loss | cut -c1-10)" "$(of test_loss held | cut -c1-10)"

case_ "--test-data: another file, which may have keys that the model does not"
yoke data synth criteo --rows 20000 --features 10000 --seed 1 -o train.libsvm --quiet
head -n 2000 train.libsvm >known.libsvm
sed 's/$/ 20000:3 4000000000:1/' known.libsvm >unknown.libsvm
for file in known unknown; do
    expect_exit 0 yoke train logreg --data train.libsvm --test-data $file.libsvm --quiet \
        --run "test-$file"
    expect_exit 0 yoke eval "test-$file" --json
    expect_same "$(json test_loss) $(json examples)" "$(of test_loss "test-$file") 2000"
done
expect_same "$(of test_loss test-known | cut -c1-8) $(of test_auc test-known)" \
    "$(of test_loss test-unknown | cut -c1-8) $(of test_auc test-unknown)"
expect_same "$(of parameters test-unknown)" "$(of parameters test-known)"

case_ "a target ends it with the parameters that reached it"
expect_exit 0 yoke train logreg --data $data --holdout 0.1 --target-loss 0.45 --eval-every 2000ex \
    --epochs 5 --quiet --run aim
expect_same "$(of stop_reason aim)" target_loss
expect awk -v loss="$(of test_loss aim)" 'BEGIN { exit !(loss > 0.43 && loss <= 0.45) }'
expect_exit 0 yoke eval aim --json
expect_same "$(json test_loss) $(json params_xxh3)" "$(of test_loss aim) $(params_of aim)"

# --- formats ---

case_ "rows in every format, whole or in parts, teach the same"
same=(--batch 10 --shuffle-buffer 1 --features 10000 --threads 1 --quiet)
expect_exit 0 yoke train logreg --data train.libsvm "${same[@]}" --run libsvm
for file in train.tfrecord train.vw train.rows train.tfrecord.gz; do
    expect_exit 0 yoke data convert train.libsvm "$file"
    expect_exit 0 yoke train logreg --data "$file" "${same[@]}" --run "from-$file"
    expect_same "$(params_of "from-$file")" "$(params_of libsvm)"
done
mkdir parts
split -l 7000 train.libsvm parts/part-
expect_exit 0 yoke train logreg --data parts "${same[@]}" --run folder
expect_exit 0 yoke train logreg --data parts/part-aa,parts/part-ab,parts/part-ac "${same[@]}" \
    --run list
expect_same "$(params_of folder) $(params_of list)" "$(params_of libsvm) $(params_of libsvm)"
yoke train logreg --data - "${same[@]}" --run stdin <train.libsvm >"$OUT" 2>"$ERR" ||
    fail "cannot train on standard input"
expect_same "$(params_of stdin)" "$(params_of libsvm)"
expect_exit 0 yoke train logreg --data synth-criteo:20000:10000:1 "${same[@]}" --run synth
expect_same "$(params_of synth)" "$(params_of libsvm)"

case_ "a TFRecord's features by other names"
expect_exit 0 yoke data convert train.libsvm named.tfrecord --label-name clicked --index-name ids \
    --value-name vals
expect_exit 3 yoke train logreg --data named.tfrecord "${same[@]}" --run named
expect_exit 0 yoke train logreg --data named.tfrecord --label-name clicked --index-name ids \
    --value-name vals "${same[@]}" --run named
expect_same "$(params_of named)" "$(params_of libsvm)"
expect_exit 0 yoke eval libsvm --json
loss=$(json test_loss)
expect_exit 0 yoke eval named --json # it remembers them
expect_same "$(json examples) $(json test_loss)" "20000 $loss"
expect_exit 3 yoke eval libsvm --data named.tfrecord
expect_exit 0 yoke eval libsvm --data named.tfrecord --label-name clicked --index-name ids \
    --value-name vals --json
expect_same "$(json examples) $(json test_loss)" "20000 $loss"

case_ "labels -1 and +1 are 0 and 1"
sed -e 's/^0/-1/' -e 's/^1/+1/' train.libsvm >signs.libsvm
expect_exit 0 yoke train logreg --data signs.libsvm "${same[@]}" --run signs
expect_same "$(params_of signs)" "$(params_of libsvm)"

case_ "hashed keys: fewer weights"
expect_exit 0 yoke train logreg --data train.libsvm --hash-bits 8 --quiet --run hashed
expect_same "$(of parameters hashed)" 257
expect_exit 0 yoke eval hashed --test-data known.libsvm --hash-bits 8 --json
expect_same "$(json examples)" 2000
expect_error 2 "was not trained with --hash-bits 9" \
    yoke eval hashed --test-data known.libsvm --hash-bits 9

# --- uses of a model ---

case_ "predictions: one line a row, probabilities that add up, and as right as eval says"
expect_exit 0 yoke predict held --test-data known.libsvm -o known.csv
expect_same "$(head -n 1 known.csv) $(wc -l <known.csv)" "row,label,p0,p1 2001"
# shellcheck disable=SC2016
expect awk -F, 'NR > 1 && ($3 + $4 - 1) ^ 2 > 1e-9 || NR > 1 && ($4 > $3) != $2 { exit 1 }' \
    known.csv
expect_exit 0 yoke eval held --test-data known.libsvm --json
expect_same "$(paste -d, <(cut -d' ' -f1 known.libsvm) <(tail -n +2 known.csv | cut -d, -f2) |
    awk -F, '{ n += ($1 > 0) == $2 } END { print n / NR }')" "$(json test_accuracy)"
# shellcheck disable=SC2016
expect awk -v loss="$(json test_loss)" -F '[, ]' 'NR == FNR { y[NR] = $1; next }
    FNR > 1 { sum -= log(y[FNR - 1] == 1 ? $4 : $3); n++ }
    END { exit !(n == 2000 && (sum / n - loss) ^ 2 < 1e-9) }' known.libsvm known.csv

case_ "export: bias and weights, most of them zero where --l1 costs"
zeros() # NPZ: how many of its weights are zero
{
    npz_reader "$1" logreg.weight | od -An -v -t f4 -w4 | awk '$1 == 0 { n++ } END { print n + 0 }'
}
expect_exit 0 yoke train logreg --data $data --optimizer ftrl --quiet --run full
expect_exit 0 yoke train logreg --data $data --optimizer ftrl --l1 5 --quiet --run thin
for run in full thin; do
    expect_exit 0 yoke export $run -o $run.npz
done
expect_exit 0 npz_reader full.npz
expect_out '^logreg.bias <f4 C \(1,\)'
expect_out '^logreg.weight <f4 C \(10000,\)'
expect test "$(zeros full.npz)" -lt 3000
expect test "$(zeros thin.npz)" -gt 8000
expect close_to "$(of progressive_loss thin)" "$(of progressive_loss full)" 20

# --- stops ---

long=(--data "$data" --batch 10 --threads 1 --eval-every 1000000 --quiet)
# NAME SIGNAL CODE OPTIONS...: stopped in the middle and resumed it ends as if nothing had happened
after()
{
    local name=$1 signal=$2 code=$3 end
    shift 3
    env --default-signal=INT,QUIT "$BUILD/yoke" train logreg "${long[@]}" "$@" --epochs 1000000 \
        --checkpoint-every 0.1s --run "$name" >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
    wait_until eval "ls $name/checkpoints/*.safetensors >/dev/null 2>&1"
    kill "-$signal" $pid
    ended "$code"
    end=$(($(checkpoints_of "$name" | tail -n 1 | tr -dc 0-9 | sed 's/^0*//') + 777))
    expect_exit 0 yoke train --resume "$name" --steps $end --quiet
    expect_exit 0 yoke train logreg "${long[@]}" "$@" --steps $end --run "$name.whole"
    expect_same "$(params_of "$name") $(of examples "$name")" \
        "$(params_of "$name.whole") $(of examples "$name.whole")"
    expect_same "$(of progressive_loss "$name" | cut -c1-9)" \
        "$(of progressive_loss "$name.whole" | cut -c1-9)"
}
case_ "Ctrl-C saves and ends; resumed it has the bits of a run that was not stopped"
after int INT 130
case_ "SIGTERM likewise, with L2 that untouched weights are owed"
after term TERM 143 --optimizer sgd --lr 0.02 --l2 0.001
case_ "kill -9: from the last checkpoint"
after nine 9 137 --optimizer ftrl --l1 0.1
case_ "... and with momentum, that goes on where no row is"
after coast 9 137 --optimizer momentum --lr 0.005

case_ "a file that has changed is not what the run was about"
expect_exit 0 yoke train logreg --data known.libsvm --quiet --run changed
sed -i '5s/^[01]/0/; 6s/^[01]/1/; 7s/^[01]/0/' known.libsvm
expect_error 3 "'known.libsvm'|known.libsvm" yoke train --resume changed --epochs 2 --quiet

# --- threads ---

case_ "two threads: a loss within 1 %, and no promise of bits"
expect_exit 0 yoke train logreg --data $data --threads 1 --quiet --run one
expect_exit 0 yoke train logreg --data $data --threads 2 --quiet --run two
expect_same "$(of examples two) $(of reproducible one) $(of reproducible two)" "100000 true false"
expect close_to "$(of progressive_loss two)" "$(of progressive_loss one)" 1
expect_same "$(of reproducible_why_not two | grep -c thread)" 1

# threads_of COMMAND...: how many threads it has while it waits for more rows on its standard input.
# The first rows do not fit into a pipe, so once all are written the command is reading. It is
# killed then.
threads_of()
{
    rm -f rows.pipe
    mkfifo rows.pipe
    "$@" <rows.pipe >"$OUT" 2>"$ERR" &
    pid=$!
    exec 7>rows.pipe
    yes '1 3:1 5:1' | head -c 300000 >&7
    find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l
    kill -9 "$pid"
    exec 7>&-
    { wait "$pid"; } 2>/dev/null
}

case_ "--threads binds the parsers, too; without it every core parses, though one thread computes"
learn=(yoke train logreg --data - --format libsvm --run bound)
least=$(threads_of "${learn[@]}" --threads 1)
for n in 2 5; do
    expect_same "$(threads_of "${learn[@]}" --threads $n)" $((least + n - 1))
done
expect_same "$(threads_of "${learn[@]}")" $((least + $(nproc) - 1))
printf 'threads = 4\n' >yoke.ini
expect_same "$(threads_of "${learn[@]}")" $((least + 3))
rm -rf yoke.ini bound
learn=(yoke eval one --data - --format libsvm)
least=$(threads_of "${learn[@]}" --threads 1)
# 4 more that parse, and 4 more that compute
expect_same "$(threads_of "${learn[@]}" --threads 5)" $((least + 8))

# --- refusals ---

rm -rf runs
printf '1 3:1 9:1\n0 4:1\n-1 2:1\n+1 3:2\n' >four.libsvm
printf '1 3:1\n1 x3\n0 4:1\n' >bad.libsvm
: >empty.libsvm
few=(--batch 1 --quiet)
case_ "errors are one sentence with a code"
expect_error 2 "'yoke train logreg' needs --data" yoke train logreg
expect_error 3 "cannot open 'absent.libsvm': no such file" yoke train logreg --data absent.libsvm
expect_error 3 "'bad.libsvm' line 2: expected index:value, found 'x3'" \
    yoke train logreg --data bad.libsvm "${few[@]}"
expect_error 3 "'bad.libsvm' line 2: expected index:value, found 'x3'" \
    yoke train logreg --data four.libsvm --test-data bad.libsvm "${few[@]}"
expect_error 3 "'bad.libsvm' line 2: expected index:value, found 'x3'" \
    yoke eval held --test-data bad.libsvm
expect_error 3 "no rows" yoke train logreg --data empty.libsvm "${few[@]}"
expect_error 2 "adam would move all 10001 weights, 40.1 kB, at every step" \
    yoke train logreg --data $data --optimizer adam
expect_error 2 "adam would move all 33762579 weights, 135.1 MB, at every step" \
    yoke train logreg --data $data --optimizer adam --features 33762578
expect_error 2 "has 10 features, more than --features 9" yoke train logreg --data four.libsvm \
    --features 9 "${few[@]}"
expect_error 2 "--batch 5 is more than the 4 examples" yoke train logreg --data four.libsvm \
    --batch 5
expect_error 2 "a target needs test data" yoke train logreg --data four.libsvm --target-loss 0.1 \
    "${few[@]}"
expect_error 2 "--l1 means nothing to --optimizer momentum" yoke train logreg --data four.libsvm \
    --optimizer momentum --l1 1 "${few[@]}"
expect_error 2 "--holdout: 0.95 is out of range" yoke train logreg --data four.libsvm --holdout 0.95
expect_error 2 "--hash-bits: 40 is out of range" yoke train logreg --data four.libsvm --hash-bits 40
expect_no_runs

case_ "logreg takes pictures of two classes and no more; a dense model takes no sparse rows"
tiny pictures train 20 4 4 3
tiny pictures t10k 20 4 4 3
tiny binary train 20 4 4 2
tiny binary t10k 20 4 4 2
expect_error 2 "logreg .*2 classes, .*3 classes" yoke train logreg --data pictures "${few[@]}"
expect_error 2 "'four.libsvm' holds sparse rows, and softmax takes dense sets" \
    yoke train softmax --data four.libsvm
expect_error 2 "'$data' holds sparse rows, and softmax takes dense sets" \
    yoke train softmax --data $data
expect_error 2 "--holdout and --test-data exclude each other" yoke train logreg --data four.libsvm \
    --holdout 0.5 --test-data four.libsvm "${few[@]}"
expect_no_runs
expect_exit 0 yoke train logreg --data binary --batch 5 --quiet --run two-classes
expect_same "$(of parameters two-classes) $(of examples two-classes)" "17 20"

case_ "options of sparse rows mean nothing to a dense model"
for option in "--holdout 0.1" "--features 16" "--hash-bits 4" "--format vw"; do
    # shellcheck disable=SC2086 # words
    expect_error 2 "${option% *}" yoke train softmax --data pictures --batch 5 --steps 1 $option
done
rm -rf runs

case_ "--skip-bad: malformed rows are left out, counted and told"
expect_exit 0 yoke train logreg --data bad.libsvm --skip-bad 1 "${few[@]}" --run skipped
expect_err "^yoke: warning: 1 rows of 'bad.libsvm' are malformed and left out"
expect_same "$(of bad_rows skipped) $(of examples skipped)" "1 2"
printf '1 y\n' >>bad.libsvm
expect_error 3 "'bad.libsvm' line 4" yoke train logreg --data bad.libsvm --skip-bad 1 "${few[@]}"

case_ "--dry-run says what would be, and does nothing"
expect_exit 0 yoke train logreg --data four.libsvm --features 20 --batch 2 --dry-run
expect_out '^model +logreg, 21 parameters'
expect_out '^data .*four.libsvm: 4 training and 0 test rows'
expect_no_runs
