#!/bin/bash
# use.sh - the uses of a trained model (eval, predict, export), and yoke's explanations of itself:
# help, manual page, completion, data info.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_mnist
tool json_check npz_reader
mnist=${XDG_CACHE_HOME:-$HOME/.cache}/yoke/mnist
verbs=$(yoke help | sed -n '/^verbs:$/,/^$/s/^  \([a-z]*\) .*/\1/p')
expect_exit 0 yoke train softmax --epochs 2 --quiet
run=runs/$(readlink runs/latest)
hash=$(params_of "$run")

case_ "eval takes a run, runs/latest, a link to it, a checkpoint, and tells the run's own figures"
ln -s "$run" link
for what in "$run" "$run/" runs/latest runs/latest/ link "$(newest_of "$run")"; do
    expect_exit 0 yoke eval "$what" --json
    json_check model data checkpoint global_steps examples test_loss test_accuracy seconds \
        params_xxh3 <"$OUT" >"$ERR" || fail "$(head -n 1 "$ERR")"
    expect_same "$(json params_xxh3)" "$hash"
    expect_same "$(json test_loss)" "$(json test_loss "$run/summary.json")"
    expect_same "$(json test_accuracy)" "$(json test_accuracy "$run/summary.json")"
done
accuracy=$(json test_accuracy)
expect_exit 0 yoke eval runs/latest
expect_out '^softmax at step 1200 on mnist: loss [0-9.]+, accuracy [0-9.]+ % \([0-9]+ of 10000\)'
expect_no_err

case_ "eval gives the same figures with every instruction set and thread count, up to rounding"
for args in "--isa plain" "--threads 1" "--threads 3"; do
    # shellcheck disable=SC2086
    expect_exit 0 yoke eval runs/latest $args --json
    trained=$(json test_loss "$run/summary.json")
    expect awk "BEGIN { d = $(json test_loss) - $trained; exit !(d * d < 1e-10) }"
done

case_ "eval tests a run on the test data that it was trained with"
tiny own train 60 4 4 3
tiny own t10k 30 4 4 3
tiny other t10k 20 4 4 3
expect_exit 0 yoke train softmax --data own --test-data other --batch 7 --epochs 1 --run tested \
    --json --quiet
loss=$(json test_loss)
expect_exit 0 yoke eval tested --json
expect_same "$(json examples) $(json test_loss)" "20 $loss"

case_ "data in yoke.ini is for training: an old run is measured on its own"
mkdir elsewhere
echo 'data = fashion-mnist' >elsewhere/yoke.ini
(cd elsewhere && yoke eval "../$run" --json) >"$OUT" 2>"$ERR" || fail "eval failed"
expect_same "$(json test_loss)" "$(json test_loss "$run/summary.json")"

case_ "eval, predict and export say so when they pass over a damaged checkpoint"
expect_exit 0 yoke train softmax --steps 400 --checkpoint-every 100 --run passed --quiet
truncate -s 1000 "$(newest_of passed)"
for args in "eval passed" "predict passed" "export passed -o passed.npz"; do
    # shellcheck disable=SC2086
    expect_exit 0 yoke $args
    expect_err "^yoke: warning: .*using the checkpoint before it$"
done

case_ "eval on other data: a folder, a file, another set; what does not fit names both shapes"
mkdir part
{ big_endian $((0x803)) 500 28 28 && tail -c +17 "$mnist/t10k-images-idx3-ubyte" |
    head -c $((500 * 784)); } >part/t10k-images-idx3-ubyte
{ big_endian $((0x801)) 500 && tail -c +9 "$mnist/t10k-labels-idx1-ubyte" | head -c 500; } \
    >part/t10k-labels-idx1-ubyte
expect_exit 0 yoke eval runs/latest --data part --json
expect_same "$(json examples)" 500
expect_exit 0 yoke eval runs/latest --test-data part/t10k-images-idx3-ubyte --json
expect_same "$(json examples)" 500
gzip -k part/t10k-images-idx3-ubyte
rm part/t10k-images-idx3-ubyte
expect_exit 0 yoke eval runs/latest --data part --json
expect_same "$(json examples)" 500
tiny small t10k 9 4 4 3
expect_error 2 "4x4x1, 3 classes.*28x28x1, 10 classes" yoke eval runs/latest --data small
expect_error 2 "4x4x1, 3 classes.*28x28x1, 10 classes" yoke predict runs/latest --data small
expect_error 2 "which run" yoke eval
expect_error 2 "which run" yoke predict
expect_error 2 "which run" yoke export -o x.npz

case_ "predict writes a header and a line for every example, with probabilities that add up"
expect_exit 0 yoke predict runs/latest
expect_no_err
cp "$OUT" predictions.csv
expect_same "$(head -n 1 predictions.csv)" "row,label,p0,p1,p2,p3,p4,p5,p6,p7,p8,p9"
expect_same "$(wc -l <predictions.csv)" 10001
awk -F, 'NR > 1 {
    sum = 0; best = 3
    for (i = 3; i <= 12; i++) { sum += $i; if ($i < 0 || $i > 1) bad++; if ($i > $best) best = i }
    if (NF != 12 || $1 != NR - 2 || sum < 0.9999 || sum > 1.0001 || $2 != best - 3) bad++
} END { exit bad > 0 }' predictions.csv || fail "a line is wrong"

case_ "the predicted labels are as right as eval says"
right=$(paste -d' ' <(tail -n +2 predictions.csv | cut -d, -f2) <(tail -c +9 \
    "$mnist/t10k-labels-idx1-ubyte" | od -An -v -tu1 -w1) |
    awk '$1 == $2 { n++ } END { print n }')
expect awk "BEGIN { d = $right / 10000 - $accuracy; exit !(d * d < 1e-12) }"

case_ "predict -o writes the same to a file, replaces an old one, and leaves nothing else"
mkdir results
echo old >results/p.csv
expect_exit 0 yoke predict runs/latest -o results/p.csv
expect_no_out
expect cmp -s results/p.csv predictions.csv
expect_same "$(ls results)" p.csv
expect_exit 0 yoke predict "$(newest_of "$run")" --output results/p.csv --quiet
expect_no_err
expect_error 2 "cannot write 'results': it is a folder" yoke predict runs/latest -o results
expect_error 1 "nowhere/p.csv" yoke predict runs/latest -o nowhere/p.csv
expect_same "$(ls results)" p.csv

case_ "an output that is a pipe or a device is written to, not replaced"
mkfifo pipe
timeout 60 cat pipe >piped &
pid=$!
expect_exit 0 timeout 60 yoke predict runs/latest -o pipe --quiet
wait $pid
expect test -p pipe
expect cmp -s piped predictions.csv

case_ "--json is either one object or refused, for every verb that lists it"
declare -A example=(
    [train]='softmax --steps 5 --run brief --quiet' [eval]='runs/latest --quiet' \
        [data]='fetch mnist --quiet'
    [net]='show lenet' [netcheck]='--hosts localhost:2' [matmul]='--n 64 --quiet'
)
for verb in $verbs; do
    if yoke help "$verb" | grep -q -- '--json'; then
        # shellcheck disable=SC2086
        expect_exit 0 yoke "$verb" ${example[$verb]:-} --json
        expect json_check <"$OUT"
        unset "example[$verb]"
    else
        expect_error 2 "takes no option '--json'" yoke "$verb" --json
    fi
done
expect_same "${#example[@]}" 0

case_ "export writes an npz whose arrays are the checkpoint's tensors, byte for byte"
expect_exit 0 yoke export runs/latest --to npz -o model.npz
expect_no_out
expect_exit 0 npz_reader model.npz
expect_out '^softmax.bias <f4 C \(10,\)$'
expect_out '^softmax.weight <f4 C \(10, 784,?\)$'
expect_same "$(wc -l <"$OUT")" 2
{ npz_reader model.npz softmax.bias && npz_reader model.npz softmax.weight; } >arrays
tail -c $((7850 * 4)) "$(newest_of "$run")" >tensors
expect cmp -s arrays tensors

case_ "unzip can read the npz"
if command -v unzip >/dev/null; then
    expect_exit 0 unzip -t model.npz
else
    skip "unzip is not installed"
fi

case_ "numpy reads the checkpoint's bytes from the npz, and exchanges .npy files with matmul"
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    expect_exit 0 /usr/bin/python3 -c '
import numpy, sys
m = numpy.load("model.npz")
assert sorted(m.files) == ["softmax.bias", "softmax.weight"], m.files
assert m["softmax.bias"].shape == (10,) and m["softmax.weight"].shape == (10, 784)
assert all(m[k].dtype == numpy.float32 for k in m.files)
assert b"".join(m[k].tobytes() for k in sorted(m.files)) == open("tensors", "rb").read()
r = numpy.random.RandomState(1)
numpy.save("A.npy", r.randn(37, 53).astype("f4"))
numpy.save("B.npy", numpy.asfortranarray(r.randn(53, 29)))'
    expect_exit 0 yoke matmul A.npy B.npy -o C.npy
    expect_exit 0 /usr/bin/python3 -c '
import numpy
a, b, c = (numpy.load(n + ".npy") for n in "ABC")
assert c.shape == (37, 29) and c.dtype == numpy.float32
assert abs(c - a.astype("f8") @ b).max() < 1e-4'
else
    skip "python3-numpy is not installed"
fi

case_ "export leaves the optimizer's state behind, and says what it cannot do"
expect_exit 0 yoke train softmax --optimizer adam --steps 100 --run adam --quiet
expect_exit 0 yoke export adam -o adam.npz --quiet
expect_no_err
expect_exit 0 npz_reader adam.npz
expect_same "$(wc -l <"$OUT")" 2
expect_error 2 "needs -o FILE" yoke export runs/latest
expect_error 2 "'tf' is none of npz" yoke export runs/latest --to tf -o x
expect_error 1 "nowhere/x.npz" yoke export runs/latest -o nowhere/x.npz
expect test ! -e x

case_ "a run that trains can be evaluated, predicted and exported meanwhile"
begin busy softmax --steps 100000000 --checkpoint-every 20 --keep 1 --run busy
for _ in 1 2 3 4 5 6 7 8 9 10; do
    expect_exit 0 yoke eval busy
    expect_exit 0 yoke export busy -o busy.npz --quiet
    expect_exit 0 npz_reader busy.npz
done
kill -INT $pid
ended 130

# ---- explaining itself ----

case_ "the verbs of this script are all that there are"
expect test "$(wc -w <<<"$verbs")" -ge 10
for verb in train eval predict export data matmul net netcheck testbed help; do
    expect grep -qx "$verb" <<<"$verbs"
done

case_ "help of every verb lists its options, shows examples that work, and fits 80 columns"
for verb in $verbs; do
    expect_exit 0 yoke help "$verb"
    expect_no_err
    expect_out "^usage: yoke $verb"
    expect_out '^options:$'
    expect_out '^examples:$'
    expect_out '^  -h, --help'
    cp "$OUT" "help.$verb"
    expect_exit 0 yoke "$verb" --help
    expect cmp -s "$OUT" "help.$verb"
    expect_exit 0 yoke "$verb" -h
    expect cmp -s "$OUT" "help.$verb"
    expect test -z "$(grep -E '.{81}' "help.$verb")"
done

case_ "help lists the options that the verb takes, and no others"
all=$(cat help.* | sed -nE 's/^  (-., )?--([a-z0-9-]+).*/\2/p' | sort -u | grep -vx help)
expect test "$(wc -w <<<"$all")" -ge 30
for verb in $verbs; do
    for name in $all; do
        run yoke "$verb" "--$name" 1 a b c d e || true # too many words: nothing is ever done
        listed=no taken=yes
        grep -qE "^  (-., )?--$name( |\$)" "help.$verb" && listed=yes
        grep -q "takes no option '--$name'" "$ERR" && taken=no
        [ $listed = $taken ] || fail "--$name of '$verb': listed $listed, taken $taken"
    done
done

case_ "the examples of the help run"
mkdir examples
(
    cd examples || exit 1
    mkdir digits
    cp "$mnist"/* digits/
    cp digits/train-images-idx3-ubyte .
    cp "$top/models/mlp.net" digits.net
    gzip -k train-images-idx3-ubyte
    sed -n '/^examples:/,$p' ../help.{train,eval,predict,export,data,net} | grep '^  yoke ' |
        sort -u >list
    # commands that train come before those that need a run
    { grep -E ' train (lenet|softmax) ' list && grep -- '--resume' list && grep -v 'yoke train ' \
        list; } >ordered
    sed -i 's/--hosts a,b,c/--hosts localhost:3/' ordered # hosts that are here
    if [ "$(wc -l <ordered)" -lt 20 ] || [ "$(wc -l <ordered)" != "$(wc -l <list)" ]; then
        echo "not all of them are there"
        exit 1
    fi
    while read -r line; do
        bash -o pipefail -c "$line" >out 2>err </dev/null || [ $? = 141 ] ||
            { echo "$line: $(head -n 1 err)"; exit 1; }
    done <ordered
) >"$OUT" 2>&1 || fail "an example of the help does not work"

case_ "help about what is not there"
expect_error 2 "'trian' is not a verb" yoke help trian
expect_err "did you mean 'yoke help train'|did you mean 'yoke train'"
expect_error 2 "'yoke help'.*'more'" yoke help train more

case_ "--version and -V"
expect_exit 0 yoke --version
expect_out '^yoke [0-9]+\.[0-9]+\.[0-9]+$'
expect_same "$(wc -l <"$OUT")" 1
expect_exit 0 yoke -V

case_ "the manual page is well-formed and names every verb, option and exit status"
expect_exit 0 yoke help --man
cp "$OUT" yoke.1
expect cmp -s yoke.1 "$top/docs/yoke.1"
for verb in $verbs; do
    expect grep -q "^\.Ss $verb " yoke.1
done
for name in $all; do
    expect grep -qF -- "Fl \\-$name" yoke.1
done

case_ "mandoc finds nothing wrong with it"
if command -v mandoc >/dev/null; then
    expect_exit 0 mandoc -Tlint -Wwarning yoke.1
    expect_exit 0 mandoc -Thtml yoke.1
    expect_out 'EXIT'
else
    skip "mandoc is not installed"
fi

# complete WORD...: the words that bash offers for the last one, one per line
complete_()
{
    bash --norc --noprofile -c '
        source <(yoke help --completion bash)
        complete -p yoke | grep -q " -F _yoke yoke" || exit 1
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        _yoke yoke "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}

case_ "bash completes verbs, models, options, choices and files"
expect_same "$(complete_ yoke '' | sort | tr '\n' ' ')" \
    "--help --version $(LC_ALL=C sort <<<"$verbs" | tr '\n' ' ')"
expect_same "$(complete_ yoke tr)" train
expect_same "$(complete_ yoke train sof)" softmax
expect_same "$(complete_ yoke train alex | sort | tr '\n' ' ')" "alexnet alexnet-lrn "
mkdir nets
cp "$top/models/mlp.net" nets
touch nets/mlp.txt
expect_same "$(complete_ yoke train net)" nets
expect_same "$(complete_ yoke train nets/ml)" nets/mlp.net
expect_same "$(complete_ yoke help net | tr '\n' ' ')" "net netcheck "
expect_same "$(complete_ yoke train softmax --tar | tr '\n' ' ')" "--target-loss --target-accuracy "
expect_same "$(complete_ yoke train softmax --optimizer a | tr '\n' ' ')" "adagrad adam "
expect_same "$(complete_ yoke export --to '' | tr '\n' ' ')" \
    "npz onnx text libsvm tfrecord criteo vw cache "
expect_same "$(complete_ yoke data f)" fetch
expect_same "$(complete_ yoke eval runs/lat)" runs/latest

case_ "bash completes every option of every verb"
for verb in $verbs; do
    sed -nE "s/^  (-., )?--([a-z0-9-]+).*/$verb \\2/p" "help.$verb"
done >every
expect test "$(wc -l <every)" -ge 100
# shellcheck disable=SC2016 # the inner shell expands these
expect_exit 0 bash --norc --noprofile -c '
    source <(yoke help --completion bash)
    while read -r verb name; do
        COMP_WORDS=(yoke "$verb" x "--${name:0:3}") COMP_CWORD=3 COMPREPLY=()
        _yoke yoke "${COMP_WORDS[3]}" x
        [[ " ${COMPREPLY[*]} " = *" --$name "* ]] || echo "$verb --$name"
    done <every'
expect_no_out

case_ "bash completes in a real interactive shell"
if command -v script >/dev/null; then
    printf 'PS1="well? "; source <(yoke help --completion bash)\n' >rc
    mkfifo keys
    timeout 60 script -qefc 'bash --noprofile --rcfile rc -i' /dev/null <keys >"$OUT" 2>&1 &
    pid=$!
    exec 7>keys
    wait_until grep -q 'well? ' "$OUT" && printf 'yoke train softmax --sched\t' >&7
    wait_until grep -q 'yoke train softmax --schedule ' "$OUT"
    printf '\003exit\n' >&7
    exec 7>&-
    wait $pid
else
    skip "script is not installed"
fi

for shell in bash zsh fish; do
    case_ "$shell can read its completion script, which names every verb"
    expect_exit 0 yoke help --completion $shell
    expect test -s "$OUT"
    cp "$OUT" "completion.$shell"
    for verb in $verbs; do
        expect grep -q "$verb" "completion.$shell"
    done
    if command -v $shell >/dev/null; then
        expect_exit 0 $shell -n "completion.$shell"
    else
        skip "$shell is not installed"
    fi
done

case_ "a shell that there is no script for"
expect_error 2 "'csh' is none of" yoke help --completion csh

case_ "data info describes everything: sets, folders, files, gzipped files"
expect_exit 0 yoke data info mnist
expect_out '^mnist: 70000 labelled images, 10 classes'
expect_exit 0 yoke data info "$mnist"
expect_out '60000 rows of 28x28x1'
for name in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte \
    t10k-labels-idx1-ubyte; do
    expect_exit 0 yoke data info "$mnist/$name"
    expect_out 'IDX.*u8'
done
expect_exit 0 yoke data info part/t10k-images-idx3-ubyte.gz
expect_out 'gzipped.*500x28x28'
expect_error 2 "which file" yoke data info
expect_error 2 "which data set" yoke data fetch
expect_error 2 "fetch, info, convert or synth" yoke data
expect_error 2 "fetch, info, convert or synth" yoke data inform mnist

case_ "data info knows fashion-mnist"
if [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
    expect_exit 0 yoke data info fashion-mnist
    expect_out 'fashion-mnist: 70000'
else
    skip "dataset-fashion-mnist is not installed"
fi
