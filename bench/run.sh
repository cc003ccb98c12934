#!/bin/bash
# run.sh - what 'make bench' runs: the softmax step against its baseline, the time to a model state, many workers; sparse logistic
# regression; matrix products; the kernels of small nets, AlexNet's step, AlexNet on wires and in a published table.
#
#   BUILD=build bench/run.sh [ROUNDS]        9 rounds and runs unless said otherwise; of what takes minutes at most 3
#
# The machine should have nothing else to do; the load before and the spread of the rounds tell whether that was so.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} rounds=${1:-9}
if ! [[ $rounds =~ ^[1-9][0-9]?$ ]]; then
    echo "usage: bench/run.sh [1..99]" >&2
    exit 2
fi
export BUILD
few=$((rounds < 3 ? rounds : 3))

# shellcheck source-path=SCRIPTDIR
. bench/machine.sh
describe_machine
"$BUILD/bench/softmax" --rounds "$rounds" || exit
echo
bench/target.sh --runs "$rounds" || exit
echo
bench/workers.sh "$rounds" || exit
echo
bench/logreg.sh "$rounds" || exit
echo
bench/matmul.sh "$few" || exit
echo
echo "LeNet's layers by the kernels for few channels, one thread, against fused multiply-adds on registers"
"$BUILD/bench/lanes" || exit
echo
bench/alexnet.sh "$few" || exit
echo
bench/wire.sh "$few" || exit
echo
bench/alexnet_table.sh
