#!/bin/bash
# peers.sh - what 'make bench-peers' runs: yoke against PyTorch from Debian's python3-torch, each at its best; first one process,
# then three workers.
#
#   BUILD=build bench/peers.sh [ROUNDS]      9 rounds unless said otherwise
#
# 'tools/deps.sh peers' has installed PyTorch and the OpenMP build of OpenBLAS; which OpenBLAS the children load is chosen by
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
/usr/bin/python3 bench/peers/compare.py --yoke "$BUILD/yoke" --bench "$BUILD/bench/softmax" --mnist "$mnist" \
    --openblas "$1" --rounds "$rounds" || exit
exec /usr/bin/python3 -B bench/peers/workers.py --yoke "$BUILD/yoke" --mnist "$mnist" --openblas "$1" --rounds "$rounds"
