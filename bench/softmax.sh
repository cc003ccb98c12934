#!/bin/bash
# softmax.sh - the softmax step against a loop over GEMM, and yoke's instruction sets against each
# other; see softmax.c.
#
#   BUILD=build bench/softmax.sh [ROUNDS]     9 rounds unless said otherwise
#   TURN=0.02 in the environment              seconds of a turn, instead of 0.2
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
number ROUNDS "$rounds" 1 99
"$build/bench/softmax" --rounds "$rounds" --seconds "${TURN:-0.2}" --isa "$isa" | tables
