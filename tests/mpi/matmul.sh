#!/bin/bash
# matmul.sh - 'yoke matmul' on one process and on several: products and traces agree for any number
# of ranks, also if a rank lacks a file; mistakes are refused; and the job ends well when a rank
# dies, an input changes or the user presses Ctrl-C.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_command mpirun
need_command python3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset "${!OMPI_MCA_@}" OMPI_COMM_WORLD_SIZE
here=(mpirun --bind-to none --oversubscribe)

near() # A B TOLERANCE
{
    awk -v a="$1" -v b="$2" -v t="$3" \
        'BEGIN { d = a - b; exit !(a != "" && b != "" && d <= t && -d <= t) }' ||
        fail "'$1' is not near '$2'"
}

moved_as_planned() # within 5 % of the plan
{
    awk -v real="$(json bytes_moved)" -v plan="$(json bytes_planned)" \
        'BEGIN { exit !(real != "" && real >= 0.95 * plan && real <= 1.05 * plan) }' ||
        fail "moved $(json bytes_moved), planned $(json bytes_planned)"
}

npy() # FILE ROWS COLS BYTE...: float32, all its bytes from printf
{
    local file=$1 byte head="{'descr': '<f4', 'fortran_order': False, 'shape': ($2, $3), }"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$head" >"$file"
    shift 3
    for byte; do
        printf '%b' "\\x$byte"
    done >>"$file"
}

# FILE FILE: equal but for rounding. The order of sums depends on the number of ranks, so bytes may
# differ.
same_elements()
{
    python3 - "$@" <<'END' || fail "the elements of $1 and $2 differ"
import array, sys
def load(path):
    data = open(path, "rb").read()
    v = array.array("f")
    v.frombytes(data[128:])
    return data[:128], v
(head, a), (other, b) = map(load, sys.argv[1:])
if head != other or len(a) != len(b) or len(a) == 0:
    sys.exit(1)
error = max(map(abs, map(float.__sub__, a, b)))
sys.exit(not error <= 1e-5 * max(map(abs, a)) > 0)
END
}

left() # temporary files, which no run may leave behind
{
    find . -name '*.tmp.*'
}

case_ "a product of two files, element by element"
npy a.npy 2 2 00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40 # 1 2 3 4
npy b.npy 2 1 00 00 a0 40 00 00 c0 40                         # 5 6
expect_exit 0 yoke matmul a.npy b.npy -o c.npy --json --quiet
expect_no_err
expect_same "$(json verified)" true
expect_same "$(json trace)" null
npy want.npy 2 1 00 00 88 41 00 00 1c 42 # 17 39
expect cmp -s <(tail -c 8 c.npy) <(tail -c 8 want.npy)
expect grep -q "'shape': (2, 1)" c.npy
expect_same "$(stat -c %s c.npy)" 136

case_ "the keys of the contract, and a plan that stays a plan"
expect_exit 0 yoke matmul --n 300 --json --quiet
for key in verified trace gflops seconds bytes_moved bytes_planned; do
    expect_out "^  \"$key\": [^n]"
done
trace=$(json trace)
expect_exit 0 yoke matmul --n 300 --dry-run -o d.npy
expect_out 'memory of a rank'
expect_exit 0 yoke matmul --n 300 --dry-run --json -o d.npy --quiet
expect_same "$(json trace)" null
expect test ! -e d.npy

case_ "any number of processes makes the same product"
for ranks in 2 3 4; do
    expect_exit 0 yoke matmul --n 300 --workers "$ranks" --json --quiet
    expect_same "$(json verified)" true
    expect_same "$(json ranks)" "$ranks"
    near "$(json trace)" "$trace" 0.001
    moved_as_planned
done
expect_exit 0 yoke matmul --n 2 --workers 3 --json --quiet
expect_same "$(json verified)" true

case_ "a trace needs no product, and says so"
expect_exit 0 yoke matmul --n 300 --trace --workers 2
expect_out 'the trace alone needs no product'
expect_exit 0 yoke matmul --n 300 --trace --workers 2 --json --quiet
near "$(json trace)" "$trace" 0.001
expect_same "$(json method)" trace
expect_same "$(json verified)" null
expect_exit 0 yoke matmul --n 300 --trace --full --json --quiet
expect_same "$(json method)" product
near "$(json trace)" "$trace" 0.001

case_ "files of two products, multiplied on four ranks"
expect_exit 0 yoke matmul --n 257 --seed 5 -o x.npy --quiet
expect_exit 0 yoke matmul --n 257 --seed 6 -o y.npy --quiet --workers 2
expect_exit 0 yoke matmul x.npy y.npy -o z.npy --quiet --json
trace=$(json trace)
expect_exit 0 yoke matmul x.npy y.npy -o z4.npy --workers 4 --quiet --json
expect_same "$(json verified)" true
near "$(json trace)" "$trace" 0.5
expect_same "$(stat -c %s z4.npy)" $((128 + 257 * 257 * 4))
same_elements z.npy z4.npy
expect_exit 0 yoke matmul x.npy y.npy --trace --workers 3 --quiet --json
near "$(json trace)" "$trace" 0.5

case_ "mpirun starts it, and a rank has no files: it gets blocks, and rank 0 writes its tiles"
mkdir -p far
expect_exit 0 "${here[@]}" -n 2 yoke matmul x.npy y.npy --json --quiet
near "$(json trace)" "$trace" 0.5
expect_exit 0 "${here[@]}" -n 1 yoke matmul x.npy y.npy -o s.npy --json --quiet : \
    -n 2 --wdir "$PWD/far" yoke matmul x.npy y.npy -o s.npy --json --quiet
expect_same "$(json verified)" true
near "$(json trace)" "$trace" 0.5
moved_as_planned
expect test "$(json bytes_moved)" -gt 500000
same_elements z.npy s.npy
[ -z "$(ls far)" ] || fail "a rank wrote where it was"

case_ "little memory makes small tiles, and the same product"
expect_exit 0 yoke matmul --n 3000 -o whole.npy --json --quiet
expect_same "$(grep -c '^    3000,\?$' "$OUT")" 2 # both sides of the only tile
expect_exit 0 yoke matmul --n 3000 --memory 170 -o tiles.npy --json --quiet
expect test "$(grep -c '^    3000,\?$' "$OUT")" -lt 2
expect_same "$(json verified)" true
same_elements whole.npy tiles.npy
rm whole.npy tiles.npy
expect test "$(json memory_planned)" -le $((170 << 20))
expect test "$(json peak_rss_bytes)" -le $((170 << 20))
expect_exit 0 yoke matmul --n 5 --quiet --json
trace=$(json trace)
for what in "" --trace; do
    # shellcheck disable=SC2086 # no word, or one
    # 152 is the least that the option takes
    expect_exit 0 yoke matmul --n 5 $what --memory 152 --quiet --json
    near "$(json trace)" "$trace" 0.00001
    [ "$what" ] || expect_same "$(json verified)" true
done

case_ "a terminal shows how far it is, once"
if command -v script >/dev/null; then
    timeout 100 script -qec 'yoke matmul --n 3000 --memory 170 --threads 1' /dev/null >"$OUT" 2>&1
    expect_out ' [0-9]+ %  multiplied, [0-9]+ s left'
    ! grep -qE '% +[0-9]+ %' "$OUT" || fail "it is shown twice"
else
    skip "script is not installed"
fi

case_ "what is no number is told, and the product is there all the same"
npy nan.npy 2 2 00 00 c0 7f 00 00 00 40 00 00 40 40 00 00 80 40
expect_exit 0 yoke matmul nan.npy a.npy -o n.npy --json --quiet
expect_same "$(json verified)" false
expect_err '^yoke: warning: A has values that are not finite, in 1 of its rows'
expect test -s n.npy

case_ "mistakes are answered with one sentence"
printf 'no matrix' >bad.npy
head -c 140 x.npy >short.npy
mkdir folder
mkfifo pipe.npy
while read -r code args; do
    # shellcheck disable=SC2086 # words
    expect_error "$code" "${args#*@ }" timeout -k 1 20 yoke matmul ${args%@*}
done <<'END'
2 @ no matrices to multiply
2 a.npy @ a product has two factors
2 --n 5 a.npy @ --n makes both matrices
2 --n 0 @ 0 is out of range
2 --n 5 --full @ goes with --trace
2 --n 5 --trace -o c.npy @ needs no product
2 a.npy x.npy @ 2 x 2 and 'x.npy' is 257 x 257
2 a.npy b.npy --trace @ only a square matrix has a trace
2 --n 5 --memory 151 @ 151 is out of range
2 --n 200000 --memory 155 @ 155 MB of memory for a rank is too little
2 --n 5 -o /dev/null @ not a regular file
2 --n 5 -o pipe.npy @ not a regular file
2 --n 5 -o folder @ cannot write 'folder': it is a folder
2 --n 5 --workers 2 -o folder @ cannot write 'folder': it is a folder
2 --n 5 -o - @ 'yoke matmul' writes a file, not standard output
3 missing.npy a.npy @ cannot open 'missing.npy'
3 pipe.npy b.npy @ 'pipe.npy' is not a regular file
3 bad.npy a.npy @ 'bad.npy' is not an .npy file
3 short.npy x.npy @ 'short.npy' is too short
3 missing.npy a.npy --workers 2 @ 'missing.npy': no rank has it
3 bad.npy a.npy --workers 2 @ 'bad.npy' is not an .npy file
1 --n 5 -o missing/c.npy @ missing/c.npy
END
cp y.npy far/x.npy
expect_exit 3 "${here[@]}" -n 1 yoke matmul x.npy x.npy : -n 1 --wdir "$PWD/far" \
    yoke matmul x.npy x.npy
expect_err "on rank 1"

begin() # ARGS...: in the background, until it works; its process is $pid
{
    : >"$ERR"
    MARK=$tmp timeout -k 5 100 yoke matmul --n 9000 -o big.npy "$@" >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
    wait_until grep -q 'GFLOPS' "$ERR"
}

ended() # CODE: the job in the background
{
    local got=0
    wait "$pid" || got=$?
    [ "$got" = "$1" ] || fail "it ended with status $got, not $1"
    expect test ! -e big.npy
    [ -z "$(left)" ] || fail "a file was left: $(left)"
}

yoke_of() # PARENT: the process of yoke below timeout
{
    pgrep -P "$1" -x yoke
}

for ranks in 1 2; do
    case_ "Ctrl-C ends it, and leaves nothing ($ranks)"
    begin --workers "$ranks"
    kill -INT "$(yoke_of "$pid")"
    ended 130
    expect_no_out
done

case_ "kill -9 of a rank ends it with exit code 4"
begin --workers 3
victim=$(grep -lsz "^MARK=$tmp\$" /proc/[0-9]*/environ | xargs -r grep \
    -lsz '^OMPI_COMM_WORLD_RANK=1$' | while read -r file; do
    file=${file%/environ}
    [ "$(cat "$file/comm" 2>/dev/null)" != yoke ] || echo "${file#/proc/}"
done | head -n 1)
kill -KILL "$victim"
ended 4
expect_err '^yoke: .*rank 1 on .* is lost'
