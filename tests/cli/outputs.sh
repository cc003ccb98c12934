#!/bin/bash
# outputs.sh - results never overwrite their own inputs or the files of a run, and a closed standard
# output is an error. Refusals come before the first byte is written, so every file is compared with
# its copy.
# san-1: all of it
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
private_cache

unharmed() # FILE: its bytes are the same, and nothing was left beside it
{
    expect cmp -s "$1" "$tmp/copies/${1//\//_}"
    expect test -z "$(find . -name '*.tmp.*')"
}

remember() # FILE...
{
    local file
    mkdir -p "$tmp/copies"
    for file; do
        cp "$file" "$tmp/copies/${file//\//_}"
    done
}

both() # OUTPUT COMMAND...: refused, because OUTPUT is an input
{
    local output=$1
    shift
    expect_error 2 "'$output' is both input and output" "$@"
    expect_err '^hint: '
}

# ---- rows ----

yoke data synth criteo --rows 60 --features 5000 --seed 3 -o x.libsvm --quiet
yoke data convert x.libsvm x.rows --quiet
mkdir dir other
cp x.libsvm dir/x
cp x.libsvm dir/y
ln -s x.libsvm link.libsvm
ln x.libsvm hard.libsvm
remember x.libsvm x.rows dir/x dir/y

case_ "rows are not converted onto themselves"
both x.libsvm yoke data convert x.libsvm x.libsvm --hash-bits 4
both ./x.libsvm yoke data convert x.libsvm ./x.libsvm
both x.rows yoke data convert x.rows x.rows
both link.libsvm yoke data convert x.libsvm link.libsvm
both x.libsvm yoke data convert link.libsvm x.libsvm
both hard.libsvm yoke data convert x.libsvm hard.libsvm
unharmed x.libsvm
unharmed x.rows

case_ "nor onto a file of the folder, or of the list, that is read"
both dir/x yoke data convert dir dir/x --to libsvm
both dir/y yoke data convert dir/ dir/y --to libsvm
both dir/y yoke data convert x.libsvm,dir/y dir/y --to libsvm
both dir/y yoke data convert x.libsvm,dir dir/y --to libsvm
ln dir/x outside
both outside yoke data convert dir outside --to libsvm
unharmed dir/x
unharmed dir/y

case_ "nor onto standard input or from a file into itself"
both x.libsvm bash -c 'yoke data convert - x.libsvm --format libsvm <x.libsvm'
cp x.libsvm grows.libsvm
remember grows.libsvm
echo 'yoke data convert grows.libsvm - --to vw >>grows.libsvm' >onto.sh
both grows.libsvm bash onto.sh
unharmed grows.libsvm

case_ "what is no input is written, new or not"
expect_exit 0 yoke data convert dir dir/new.libsvm
expect_exit 0 yoke data convert x.libsvm dir/new.libsvm
expect_exit 0 yoke data convert x.libsvm /dev/null --to libsvm
expect_exit 0 yoke data convert x.libsvm other/x.libsvm
rm dir/new.libsvm

# ---- runs and checkpoints ----

yoke train logreg --data x.libsvm --batch 10 --epochs 2 --run run --quiet >"$OUT" 2>&1 ||
    fail "cannot train"
ckpt=$(newest_of run)
cp "$ckpt" model.safetensors
remember "$ckpt" run/config.json run/metrics.jsonl run/summary.json model.safetensors

case_ "a run's own files are nobody's output"
for file in "$ckpt" run/checkpoints/new.npz run/checkpoints run/events/new run/config.json \
    run/metrics.jsonl run/summary.json run/trace.json; do
    expect_error 2 "'$file' belongs to the run in '.*/run'" yoke export run --to npz -o "$file"
    expect_error 2 "'$file' belongs to the run in" yoke predict model.safetensors -o "$file"
    expect_error 2 "'$file' belongs to the run in" yoke data convert x.libsvm "$file" --to libsvm
    expect_error 2 "'$file' belongs to the run in" yoke data synth criteo --rows 10 -o "$file" \
        --to libsvm
    expect_error 2 "'$file' belongs to the run in" yoke matmul --n 8 -o "$file"
done
cp -a run moved && mv moved/checkpoints elsewhere && ln -s ../elsewhere moved/checkpoints
file=moved/checkpoints/$(basename "$ckpt")
expect_error 2 "'$file' belongs to the run in '.*/moved'" yoke matmul --n 8 -o "$file"
expect cmp -s "$file" "$ckpt"
ln -s run/config.json seems.json
expect_error 2 "'seems.json' belongs to the run in" yoke export run --to npz -o seems.json
ln "$ckpt" hard.safetensors
both hard.safetensors yoke export run --to npz -o hard.safetensors
unharmed "$ckpt"
unharmed run/config.json
unharmed run/metrics.jsonl
unharmed run/summary.json
expect_exit 0 yoke eval run

case_ "a checkpoint is not written over by what is made of it"
both model.safetensors yoke predict model.safetensors -o model.safetensors
both model.safetensors yoke export model.safetensors --to text -o model.safetensors
unharmed model.safetensors

case_ "predictions do not replace the data they are for"
both x.libsvm yoke predict run -o x.libsvm
both x.rows yoke predict run --data x.rows -o x.rows
both dir/y yoke predict run --data dir -o dir/y
unharmed x.libsvm
unharmed x.rows
tiny digits train 40 4 4 3
tiny digits t10k 20 4 4 3
remember digits/t10k-labels-idx1-ubyte digits/t10k-images-idx3-ubyte
expect_exit 0 yoke train softmax --data digits --batch 10 --epochs 1 --run small --quiet
both digits/t10k-labels-idx1-ubyte yoke predict small -o digits/t10k-labels-idx1-ubyte
both digits/t10k-labels-idx1-ubyte yoke predict small \
    --data digits/t10k-images-idx3-ubyte -o digits/t10k-labels-idx1-ubyte
unharmed digits/t10k-labels-idx1-ubyte
expect_exit 0 yoke predict small --data digits/t10k-images-idx3-ubyte -o digits/answers.csv
expect_exit 0 yoke predict small --data digits/t10k-images-idx3-ubyte -o digits/answers.csv

standing_in() # FOLDER COMMAND...
{
    (cd "$1" && shift && "$@")
}

case_ "standard output is nobody's file, wherever one stands"
expect_exit 0 yoke predict run --data x.rows
cp "$OUT" shown.csv
for folder in run run/checkpoints run/events; do
    mkdir -p "$folder"
    expect_exit 0 standing_in "$folder" yoke predict "$PWD/run" --data "$PWD/x.rows"
    expect cmp -s "$OUT" shown.csv
done

# The link stands for /dev/stdout, which a mistake would take from every program of this machine.
case_ "a link to an open descriptor is written through and stays a link"
ln -s /proc/self/fd/1 through
yoke predict run -o through >through.csv 2>"$ERR" || fail "status $?"
expect_exit 0 yoke predict run
expect test -L through
expect cmp -s through.csv "$OUT"

case_ "a name of its own in a run's folder is fine, again and again"
expect_exit 0 yoke predict run -o run/predictions.csv
expect_exit 0 yoke predict run -o run/predictions.csv
expect_exit 0 yoke export run --to npz -o run/model.npz

# ---- matrices ----

case_ "a product does not replace a factor"
yoke matmul --n 6 -o a.npy --quiet >"$OUT" 2>&1
yoke matmul --n 6 --seed 2 -o b.npy --quiet >"$OUT" 2>&1
ln -s a.npy l.npy
remember a.npy b.npy
both a.npy yoke matmul a.npy b.npy -o a.npy
both b.npy yoke matmul a.npy b.npy -o b.npy
both l.npy yoke matmul a.npy b.npy -o l.npy
both a.npy yoke matmul a.npy b.npy -o a.npy --workers 2
unharmed a.npy
unharmed b.npy
expect_exit 0 yoke matmul a.npy b.npy -o c.npy
expect_exit 0 yoke matmul a.npy b.npy -o c.npy

# ---- standard output ----

shut() # COMMAND...: without a standard output
{
    "$@" >&-
}

case_ "a standard output that is closed is written to by nobody, and no success"
for args in "predict run" "predict run -o -" "eval run" "eval run --json" "data info x.rows" \
    "data info x.rows --json" "data convert x.libsvm copy.libsvm" "help" "help train" "--version" \
    "matmul --n 8 --quiet" "matmul --n 8 --workers 2 --quiet" "net show lenet" \
    "train logreg --data x.libsvm --batch 10 --quiet" \
    "train logreg --data x.libsvm --batch 10 --quiet --json"; do
    # shellcheck disable=SC2086
    expect_error 1 "cannot write to standard output: bad file descriptor" shut yoke $args
done
expect_error 1 "cannot write 'standard output'" shut yoke data convert x.libsvm - --to vw
expect_exit 0 shut yoke export run --to npz -o shut.npz
expect_exit 0 shut yoke predict run -o shut.csv --quiet
expect test -s shut.csv

case_ "closed streams are no files of yoke's"
bash -c 'yoke predict run -o all.csv <&- >&- 2>&-'
expect_same "$?" 0
expect cmp -s all.csv shut.csv
bash -c 'yoke eval run <&- >&- 2>&-'
expect_same "$?" 1
