#!/bin/bash
# run.sh - all of 'make bench': the demo, the softmax step against its baseline, the time to a
# model state, many workers; sparse logistic regression; matrix products; the kernels of small nets,
# AlexNet's step, AlexNet on wires and in a published table.
#
#   BUILD=build bench/run.sh [ROUNDS]         9 rounds unless said otherwise; fewer of long ones
#   ONLY='softmax|wire' in the environment    some of the blocks
#   ISA=avx2 in the environment               as if the CPU had nothing better
#
# The machine should have nothing else to do; the load before and the spread of the rounds tell
# whether that was so. The output is kept in $BUILD/results, from where publish.sh copies it into
# the READMEs. The top of each script names the variables that make it quicker.
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
number ROUNDS "$rounds" 1 99
some=$((rounds < 5 ? rounds : 5)) few=$((rounds < 3 ? rounds : 3))

# demo: the output of 'make demo', as it is
demo()
{
    echo '```'
    (cd "$tmp" && "$top/tools/demo.sh" "$yoke" 2>&1) || exit
    echo '```'
}

lanes()
{
    echo "LeNet's layers by the kernels for few channels."
    "$build/bench/lanes" "${TURN:-2}" "$isa"
}

block demo demo
block softmax bench/softmax.sh "$rounds"
block target bench/target.sh "$rounds"
block workers bench/workers.sh "$rounds"
block logreg bench/logreg.sh "$some"
block matmul bench/matmul.sh "$few"
block lanes lanes
block alexnet bench/alexnet.sh "$few"
block wire bench/wire.sh "$few"
block alexnet-table bench/alexnet_table.sh
