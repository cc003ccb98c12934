#!/bin/bash
# bits.sh - runs of several processes end with the very parameters that tests/golden/bits.tsv has;
# see tests/cli/bits.sh.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
# shellcheck source=../tools/bits.sh
. "$top/tests/tools/bits.sh"
need_mnist

check_bits grep '^mpi-'

case_ "another seed gives other bits, in processes too"
same='yoke train softmax --steps 20 --global-batch 60 --isa plain --threads 1 --run run'
same+=' --hosts localhost:2'
first=$(bits_of "$same")
expect_same "$(bits_of "$same")" "$first"
[ "$(bits_of "$same --seed 2")" != "$first" ] || fail "with --seed 2 the bits are the same"
