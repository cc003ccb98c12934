#!/bin/bash
# matmul.sh - 20,000 x 20,000 on 4 ranks within 2 GB each: made, multiplied, verified, and its trace
# found again without a product. Faults planted into a product of 8192 x 8192 are found.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_command mpirun
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset "${!OMPI_MCA_@}" OMPI_COMM_WORLD_SIZE

case_ "20,000 x 20,000 on 4 ranks, 2 GB each, written to a file"
expect_exit 0 yoke matmul --n 20000 --workers 4 --memory 2048 -o c.npy --json --quiet
expect_same "$(json verified)" true
expect test "$(json peak_rss_bytes)" -le $((2 << 30))
expect_same "$(json bytes_moved)" "$(json bytes_planned)"
expect_same "$(stat -c %s c.npy)" $((128 + 20000 * 20000 * 4))
trace=$(json trace)

case_ "the trace alone is the same"
expect_exit 0 yoke matmul --n 20000 --trace --workers 4 --json --quiet
awk -v a="$trace" -v b="$(json trace)" 'BEGIN { d = a - b; exit !(d < 1 && -d < 1) }' ||
    fail "'$(json trace)' is not near '$trace'"

case_ "a matrix from a file that does not fit into memory, in tiles"
expect_exit 0 yoke matmul c.npy c.npy --workers 4 --memory 400 --json --quiet
expect_same "$(json verified)" true
expect test "$(json peak_rss_bytes)" -le $((400 << 20))

case_ "faults in a product of 8192 x 8192 are found: a column, a row, an edge, one element"
expect_exit 0 make -C "$top" --no-print-directory BUILD="$BUILD" "$BUILD/src/matmul/check_test"
expect_exit 0 "$BUILD/src/matmul/check_test" 8192
grep -qF '[       OK ] planted_faults_are_found' "$OUT" "$ERR" || fail "nothing was planted"
