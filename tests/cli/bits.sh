#!/bin/bash
# bits.sh - runs of one process, with threads as workers or without, end with the very parameters
# that tests/golden/bits.tsv has. So a compiler flag or a kernel that moves a bit is noticed, and
# the output in the README stays true. tests/mpi/bits.sh does the same with processes.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/bits.sh
. "$top/tests/tools/bits.sh"
need_mnist

check_bits grep -v '^mpi-'

case_ "what README prints is in the table"
printed=$(sed -nE 's/^ +params .* xxh3 ([0-9a-f]{16})$/\1/p' "$top/README.md")
expect_same "$printed" "$(awk -F '\t' '$1 == "softmax-demo" && $2 == "avx2" { print $4 }' "$table")"

case_ "another seed, batch or rate gives other bits"
same='yoke train softmax --steps 50 --threads 1 --isa plain --run run'
first=$(bits_of "$same")
expect_same "$(bits_of "$same")" "$first"
for other in "--seed 2" "--batch 99" "--lr 0.0100001"; do
    [ "$(bits_of "$same $other")" != "$first" ] || fail "with $other the bits are the same"
done
