#!/bin/bash
# run.sh - what 'make bench' runs: the softmax step against its baseline, the time to a model state, many workers, then sparse logistic
# regression.
#
#   BUILD=build bench/run.sh [ROUNDS]        9 rounds and runs unless said otherwise
#
# The machine should have nothing else to do; the load before and the spread of the rounds tell whether that was so.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} rounds=${1:-9}
export BUILD

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
