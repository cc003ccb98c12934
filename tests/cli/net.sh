#!/bin/bash
# net.sh - 'yoke net show': the tables of the nets that come with yoke, of files, and the sentences
# about those that are wrong.
# san-1: all of it
. "$(dirname "$0")/../lib.sh"

net() # FILE LINE...
{
    printf '%s\n' "${@:2}" >"$1"
}

case_ "the nets that come with yoke are shown from any folder"
for want in "lenet 61,706" "lenet-report 60,074" "alexnet 61,100,840" "alexnet-lrn 60,965,224" \
    "cifar 288,746" "mlp 235,146"; do
    expect_exit 0 yoke net show "${want% *}"
    expect_out "^total +${want#* } "
    expect_no_err
done

case_ "a table has a line a layer"
expect_exit 0 yoke net show lenet
expect_out '^lenet: 12 layers, 28x28x1 in, 10 classes out$'
expect_out '^conv1 +conv 5x5 pad 2 +28x28x6 +156 +240 k +18.8 kB$'
expect_out '^dense3 +dense +10 +850 +1.69 k +40 B$'
expect_out '^options .*--data mnist .*--batch 64'

case_ "--json is one object with the same numbers"
expect_exit 0 yoke net show alexnet --json
expect test "$(json parameters)" = 61100840
expect test "$(json classes)" = 1000
expect test "$(grep -c '"kind"' "$OUT")" = 21

case_ "its layers add up"
if command -v python3 >/dev/null; then
    expect python3 -c '
import json, sys
j = json.load(open(sys.argv[1]))
assert sum(l["parameters"] for l in j["layers"]) == j["parameters"] == 61100840
assert sum(l["flops"] for l in j["layers"]) == j["flops"]
assert sum(l["memory_bytes"] for l in j["layers"]) == j["memory_bytes"]
assert [a["out"] for a in j["layers"]][:-1] == [b["in"] for b in j["layers"]][1:]
assert j["input"] == [224, 224, 3] and j["options"]["batch"] == "64"' "$OUT"
else
    skip "python3 is not installed"
fi

case_ "a file of one's own"
net mine.net 'net mine' 'input 8x8x3' 'conv 4 3x3 pad 0x1x2x1 stride 1x2 groups 1' 'dropout 0.25' \
    'lrn 3' 'dense 2' 'softmax' 'train batch 10'
expect_exit 0 yoke net show mine.net
expect_out '^conv1 +conv 3x3 stride 1x2 pad 0x1x2x1 +8x4x4 '
expect_out '^dropout1 +dropout 0.25 '
expect_out '^lrn1 +lrn 3 '
expect_out 'for a batch of 10$'
expect_exit 0 yoke net show ./mine.net

case_ "a file named like a net that comes with yoke needs a slash"
cp mine.net lenet
expect_exit 0 yoke net show lenet
expect_out '^lenet: 12 layers'
expect_exit 0 yoke net show ./lenet
expect_out '^mine: 5 layers'

case_ "shapes that do not fit are named with their place"
net bad.net 'net bad' 'input 8x8x3' 'conv 4 9x9' 'dense 2' 'softmax'
expect_exit 2 yoke net show bad.net
expect_err '^yoke: bad.net:3:1: the window of conv, 9x9, is larger than its input, 8x8x3$'
expect_no_out
net bad.net 'net bad' 'input 8x8x3' '  softmax'
expect_exit 2 yoke net show bad.net
expect_err '^yoke: bad.net:3:3: softmax needs one number for each of 2 to 65536 classes, '
expect_err ', but gets 8x8x3$'
expect_err "^hint: put 'dense N' before it"

case_ "a mistyped word is answered with the right one"
net bad.net 'net bad' 'input 8x8x3' 'conv 4 3x3 strde 2' 'dense 2' 'softmax'
expect_exit 2 yoke net show bad.net
expect_err "^yoke: bad.net:3:12: conv does not know 'strde'$"
expect_err "^hint: did you mean 'stride'"
expect_exit 2 yoke net show alexnte
expect_err "^yoke: there is no net 'alexnte'$"
expect_err "^hint: did you mean 'alexnet'"

case_ "settings are options of 'yoke train', with values that they take"
net bad.net 'net bad' 'input 8x8x3' 'dense 2' 'softmax' 'train batsh 64'
expect_exit 2 yoke net show bad.net
expect_err "^yoke: bad.net:5:1: unknown option '--batsh'$"
net bad.net 'net bad' 'input 8x8x3' 'dense 2' 'softmax' 'train lr fast'
expect_exit 2 yoke net show bad.net
expect_err '^yoke: bad.net:5:1: --lr'
net bad.net 'net bad' 'input 8x8x3' 'dense 2' 'softmax' 'train run elsewhere'
expect_exit 2 yoke net show bad.net
expect_err "^yoke: bad.net:5:1: a net may not set the option 'run'$"

case_ "a net that says nothing about training is trained all the same"
net bare.net 'net bare' 'input 6x5x3' 'dense 2' 'softmax'
expect_exit 2 yoke train bare.net
expect_err "'yoke train bare' needs --data"
expect_exit 0 yoke train bare.net --data fake:6x5x3:2:200 --quiet --json
expect test "$(json batch) $(json optimizer) $(json lr) $(json stop_reason) $(json examples)" = \
    "64 sgd 0.01 epochs 2000"
net bare.net 'net bare' 'input 6x5x3' 'dense 2' 'softmax' 'train data fake:6x5x3:2:200 lr 0.25' \
    'train biases lr 0.5' 'train steps 3'
expect_exit 0 yoke train bare.net --quiet --json
expect test "$(json batch) $(json optimizer) $(json lr) $(json stop_reason) $(json global_steps)" \
    = "64 sgd 0.25 steps 3"
expect_exit 0 yoke train bare.net --optimizer adam --dry-run --json
expect test "$(json optimizer) $(json lr) $(json bias-lr)" = "adam 0.001 "

case_ "a run keeps all of its net, however long, and needs the file no more"
remark='# %.0f, a remark that takes some room in the file and means nothing at all'
{ cat bare.net && seq -f "$remark" 600; } >long.net
expect test "$(wc -c <long.net)" -gt 40000
expect_exit 0 yoke train long.net --quiet --run long
rm long.net
expect_exit 0 yoke train --resume long --steps 5 --quiet --json
expect test "$(json global_steps)" = 5
expect grep -qF "${remark/\%.0f/600}" long/config.json
expect_exit 0 yoke train bare.net --steps 5 --quiet --run short
expect_exit 0 yoke eval short --json
loss=$(json test_loss)
expect_exit 0 yoke eval long --json
expect test "$(json global_steps) $(json examples)" = "5 200"
# Each run may have another engine.
expect awk "BEGIN { d = $(json test_loss) - $loss; exit !(d < 1e-5 && d > -1e-5) }"
{ cat bare.net && seq -f "$remark" 600 && seq -f "$remark" 600; } >long.net
expect_exit 2 yoke train long.net --quiet
expect_err "^yoke: the net 'bare' is too long to be kept in checkpoints: "
expect_err ": [0-9]+ characters, at most 64000$"

case_ "files that are no nets get one sentence"
: >empty.net
expect_exit 2 yoke net show empty.net
expect_err "^yoke: 'empty.net' is empty"
head -c 100000 /dev/urandom >random.net
expect_exit 2 yoke net show random.net
expect_err '^yoke: random.net:[0-9]+:[0-9]+: '
cp "$BUILD/yoke" program.net
expect_exit 2 yoke net show program.net
expect test "$(wc -l <"$ERR")" = 1
mkdir folder.net
expect_exit 2 yoke net show folder.net
expect_err 'is not a regular file'
expect_exit 2 yoke net show none.net
expect_err "^yoke: cannot open 'none.net': no such file"

case_ "the words of the verb"
expect_exit 2 yoke net
expect_exit 2 yoke net shw lenet
expect_err "'yoke net shw' is unknown"
expect_exit 2 yoke net show
expect_err 'which net'
expect_exit 0 yoke help net
expect_out '^  lenet +28x28x1 in, 10 classes, 61,706 parameters'

case_ "the example of the documentation is what it says"
sed -n '/^    # digits.net/,/^    train optimizer/s/^    //p' "$top/docs/nets.md" >digits.net
expect_exit 0 yoke net show digits.net
sed -n '/^    digits: /,/^    total/s/^    //p' "$top/docs/nets.md" >want
expect test -s want
expect test "$(sed '/^total/q' "$OUT" | grep .)" = "$(cat want)"

case_ "the engine that was measured is noted and taken again; a bad note is made anew"
noted() # WORD: the engine of a run after WORD has been written into every note
{
    find "$cache/yoke/engines" -type f | while read -r note; do
        printf %s "$1" >"$note"
    done
    rm -rf noted
    XDG_CACHE_HOME=$cache expect_exit 0 yoke train digits.net --data fake:28x28x1:10:64 --steps 1 \
        --threads 1 --run noted --quiet --json
    json engine
}
cache=$PWD/own-cache
mkdir -p "$cache/yoke/engines"
first=$(noted '')
expect test "$(cat "$cache"/yoke/engines/*)" = "$first"
expect test "$(noted onednn)" = onednn
expect test "$(noted lanes:3)" = lanes:3
case $(noted 'garbage that is no engine') in
onednn* | lanes*) ;;
*) fail "the engine is '$(json engine)'" ;;
esac
expect test "$(cat "$cache"/yoke/engines/*)" = "$(json engine)"

case_ "rates of biases need biases"
net plain.net 'net plain' 'input 6x5x3' 'dense 2 bias none' 'softmax' 'train data fake:6x5x3:2:200'
expect_exit 2 yoke train plain.net --bias-lr 0.1
expect_err '^yoke: --bias-lr means nothing to plain, which has no biases'

case_ "who computes is not for a net to say, and a net's text not for the command line"
{ cat digits.net; echo 'train hosts a,b'; } >hosts.net
expect_exit 2 yoke train hosts.net
expect_err "^yoke: hosts.net:[0-9]+:1: a net may not set the option 'hosts'"
expect_exit 2 yoke train softmax --net "$(cat digits.net)"
expect_err '^yoke: --net is where a run keeps the text of its net'
