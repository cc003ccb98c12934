#!/bin/bash
# peers.sh - 'make bench-peers': yoke against programs that Debian packages, each at its best.
# Softmax against PyTorch, first one process, then three workers; sparse logistic regression against
# scikit-learn and liblinear; LeNet and AlexNet against PyTorch.
#
#   BUILD=build bench/peers.sh [ROUNDS]    5 rounds unless said otherwise, of long turns at most 3
#   ONLY='torch|torch-lenet' ROWS=20000    some of the blocks; fewer sparse rows than 300,000
#   TURN=0.5 in the environment            seconds of the nets' turns, not 3 and 16
#
# 'tools/deps.sh peers' has installed them and the OpenMP build of OpenBLAS; LD_LIBRARY_PATH, not
# the system's alternatives, chooses the OpenBLAS that the children load. The machine should have
# nothing else to do. The output is kept in $BUILD/results (see lib.sh).
. "$(dirname "$0")/lib.sh"
rounds=${1:-5}
number ROUNDS "$rounds" 1 99
[ "$isa" != plain ] || { echo "bench: PyTorch cannot be kept from avx2" >&2; exit 2; }
few=$((rounds < 3 ? rounds : 3))
set -- /usr/lib/*/openblas-openmp
if [ ! -e "$1/libblas.so.3" ]; then
    echo "bench: no OpenMP build of OpenBLAS; run 'tools/deps.sh peers'" >&2
    exit 1
fi
mnist=$("$yoke" data fetch mnist) || exit

# peer NAME PROGRAM ARGUMENTS...: a block by one of the programs in peers/
peer()
{
    local name=$1 program=$2
    shift 2
    block "$name" /usr/bin/python3 -B "bench/peers/$program" "$@" --yoke "$yoke" --isa "$isa"
}

torch=(--mnist "$mnist" --openblas "$1")
peer torch compare.py "${torch[@]}" --bench "$build/bench/softmax" --rounds "$rounds"
peer torch-workers workers.py "${torch[@]}" --rounds "$few"
peer sparse-peers logreg.py --rows "${ROWS:-300000}" --rounds "$few"
peer torch-lenet nets.py lenet "${torch[@]}" --rounds "$rounds" ${TURN:+--seconds "$TURN"}
peer torch-alexnet nets.py alexnet "${torch[@]}" --rounds "$few" ${TURN:+--seconds "$TURN"}
