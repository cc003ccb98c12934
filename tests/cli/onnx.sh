#!/bin/bash
# onnx.sh - other programs use exported models: ONNX's own checker accepts them, and the results of
# ONNX Runtime are those of yoke, to 1e-5.
. "$(dirname "$0")/../lib.sh"
. "$top/tests/tools/helpers.sh"
need_command node
need_command npm
[ -e /usr/lib/python3/dist-packages/onnx ] || skip_all "needs Debian's python3-onnx"
need_mnist
mnist=$(yoke data fetch mnist 2>/dev/null)

# The runtime is fetched once, into the cache beside MNIST; half a package never gets its final
# name.
version=1.14.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/yoke/onnxruntime-node-$version
if [ ! -d "$cache" ]; then
    mkdir -p "${cache%/*}" npm
    run npm install --prefix npm --ignore-scripts --no-audit --no-fund --loglevel=error \
        --fetch-retries=1 "onnxruntime-node@$version" ||
        skip_all "needs onnxruntime-node: $(head -n 1 "$ERR")"
    if cp -r npm "$cache.$$"; then
        mv -T "$cache.$$" "$cache" 2>/dev/null # or another test was quicker
    fi
    rm -rf npm "$cache.$$"
fi
runtime=$cache/node_modules/onnxruntime-node

expect_valid() # MODEL: the checker of Debian's python3-onnx, shapes inferred strictly
{
    expect_exit 0 /usr/bin/python3 -c '
import sys, onnx
m = onnx.load(sys.argv[1])
onnx.checker.check_model(m, full_check=True)
onnx.shape_inference.infer_shapes(m, strict_mode=True)
assert m.opset_import[0].version <= 17' "$1"
}

expect_agrees() # SHAPE CLASSES MODEL INPUT EXPECTED
{
    expect_exit 0 env SHAPE="$1" CLASSES="$2" node "$top/tests/tools/onnx_run.js" "$runtime" "$3" \
        "$4" "$5"
}

case_ "softmax regression"
expect_exit 0 yoke train softmax --steps 200 --run softmax
expect_exit 0 yoke export softmax --to onnx -o softmax.onnx
expect_err "^yoke: 'softmax.onnx': softmax.weight, 7840 floats$"
expect_exit 0 yoke predict softmax -o softmax.csv
expect_valid softmax.onnx
expect_agrees 28x28x1 10 softmax.onnx "$mnist/t10k-images-idx3-ubyte" softmax.csv
expect_out '^10000 rows'

case_ "a wrong answer would be noticed"
sed 's/^\(77,[0-9]*,\).*/\10,0,0,0,0,0,0,0,0,0/' softmax.csv >wrong.csv
expect_exit 1 env SHAPE=28x28x1 CLASSES=10 node "$top/tests/tools/onnx_run.js" "$runtime" \
    softmax.onnx "$mnist/t10k-images-idx3-ubyte" wrong.csv
expect_out '^10000 rows, largest difference 0\.[1-9]'

case_ "logistic regression on rows made dense"
expect_exit 0 yoke data synth criteo --rows 2000 --features 3000 --seed 3 -o rows.libsvm
expect_exit 0 yoke train logreg --data rows.libsvm --run logreg
expect_exit 0 yoke export logreg --to onnx -o logreg.onnx
expect_exit 0 yoke predict logreg -o logreg.csv
expect_valid logreg.onnx
expect_agrees 3000 2 logreg.onnx rows.libsvm logreg.csv
expect_out '^2000 rows'

case_ "logistic regression with too many features is refused with their number"
expect_exit 0 yoke train logreg --data synth-criteo:1000:2000000 --run large
expect_error 2 'too many for a dense input, at most 1048576' \
    yoke export large --to onnx -o large.onnx
expect test ! -e large.onnx

case_ "LeNet, a little trained"
expect_exit 0 yoke train lenet --steps 50 --run lenet
expect_exit 0 yoke export lenet --to onnx -o lenet.onnx
expect_exit 0 yoke predict lenet -o lenet.csv
expect_valid lenet.onnx
expect_agrees 28x28x1 10 lenet.onnx "$mnist/t10k-images-idx3-ubyte" lenet.csv
expect_out '^10000 rows'

# The tool makes up parameters, and computes the answer with loops that follow the documentation.
tool onnx_cases

cat >every.net <<'END'
net every
input 13x11x3 mean 0.5 0.4 0.3 std 0.2 0.3 0.25
conv 8 3x5 stride 2x1 pad 1x2
batchnorm eps 0.01
relu
maxpool 3x2 stride 1x2 pad 1x0x1x1
conv 6 3x3 pad 0x1x2x2 groups 2 bias none
tanh
avgpool 2x2 stride 1 pad 1
lrn 5 alpha 0.1 beta 0.6 k 1.5
sigmoid
avgpool 3x2 stride 2
flatten
dropout 0.5
dense 12
batchnorm
relu
conv 5 1x1              # lists become images again
lrn 3
maxpool 1
dense 7 bias none
softmax
END
printf '%s\n' 'net mean' 'input 6x5x2 mean 0.5' 'conv 4 3x3' 'avgpool 4x3' 'softmax' >mean.net
# AlexNet's layers, all of them, with few channels and classes: the slow loops would take minutes
# with its own.
sed -E 's/^input 224x224x3/input 67x67x3/; s/^conv (96|256|384) /conv 12 /
    s/^dense 4096 /dense 32 /; s/^dense 1000 /dense 10 /; /^train /d' \
    "$top/models/alexnet-lrn.net" >towers.net
expect_same "$(grep -cE '^(conv 12|dense 32|dense 10|input 67x67x3|lrn)' towers.net)" 11
for net in every.net mean.net lenet-report cifar mlp towers.net; do
    case_ "every layer as the documentation has it: $net"
    expect_exit 0 onnx_cases "$net" 2 7 made
    read -r shape classes <"$OUT"
    expect_valid made.onnx
    expect_agrees "$shape" "$classes" made.onnx made.in.f32 made.out.f32
    rm -f made.*
done
