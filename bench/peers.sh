#!/bin/bash
# peers.sh - what 'make bench-peers' runs: yoke against what Debian packages, each at its best. Softmax against PyTorch, first one process,
# then three workers; sparse logistic regression against scikit-learn and liblinear; LeNet and AlexNet against PyTorch.
#
#   BUILD=build bench/peers.sh [ROUNDS]      9 rounds unless said otherwise; ROWS=20000 in the environment: fewer sparse rows than 300,000
#
# 'tools/deps.sh peers' has installed them and the OpenMP build of OpenBLAS; which OpenBLAS the children load is chosen by
# LD_LIBRARY_PATH, whatever the system's alternatives say. The machine should have nothing else to do.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} rounds=${1:-9}
if ! [[ $rounds =~ ^[1-9][0-9]{0,2}$ ]]; then
    echo "usage: bench/peers.sh [1..999]" >&2
    exit 2
fi

set -- /usr/lib/*/openblas-openmp
[ -e "$1/libblas.so.3" ] || { echo "bench: no OpenMP build of OpenBLAS; run 'tools/deps.sh peers'" >&2; exit 1; }
mnist=$("$BUILD/yoke" data fetch mnist) || exit

# shellcheck source-path=SCRIPTDIR
. bench/machine.sh
describe_machine
/usr/bin/python3 -B bench/peers/compare.py --yoke "$BUILD/yoke" --bench "$BUILD/bench/softmax" --mnist "$mnist" \
    --openblas "$1" --rounds "$rounds" || exit
/usr/bin/python3 -B bench/peers/workers.py --yoke "$BUILD/yoke" --mnist "$mnist" --openblas "$1" --rounds "$rounds" || exit
/usr/bin/python3 -B bench/peers/logreg.py --yoke "$BUILD/yoke" --rows "${ROWS:-300000}" --rounds "$rounds" || exit
few=$((rounds < 5 ? rounds : 5)) # their turns are long
echo
BUILD=$BUILD bench/lenet.sh "$few" || exit
echo
BUILD=$BUILD bench/alexnet.sh --torch "$few"
