#!/bin/bash
# lenet.sh - LeNet on MNIST, yoke's program with 2 threads against PyTorch at its best, batches of 32, 64 and 256.
#
#   BUILD=build bench/lenet.sh [ROUNDS]      5 rounds unless said otherwise; TURN=0.5 in the environment: seconds of a turn, not 3
#
# What is measured, and how PyTorch gets its best, is in peers/nets.py; 'tools/deps.sh peers' installs what it needs.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} rounds=${1:-5}
if ! [[ $rounds =~ ^[1-9][0-9]?$ ]]; then
    echo "usage: bench/lenet.sh [1..99]" >&2
    exit 2
fi
set -- /usr/lib/*/openblas-openmp
[ -e "$1/libblas.so.3" ] || { echo "bench: no OpenMP build of OpenBLAS; run 'tools/deps.sh peers'" >&2; exit 1; }
mnist=$("$BUILD/yoke" data fetch mnist) || exit
exec /usr/bin/python3 -B bench/peers/nets.py lenet --yoke "$BUILD/yoke" --mnist "$mnist" --openblas "$1" --rounds "$rounds" \
    ${TURN:+--seconds "$TURN"}
