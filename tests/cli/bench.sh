#!/bin/bash
# bench.sh - the benchmarks run: each script of bench/ once, with sizes so small that its figures
# mean nothing. The tables must have the right number of rows, a number for every ratio, and 'kept'
# or 'missed' for every floor. The figures of the READMEs must be those that a script printed.
# make: bench-build
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_command mpirun
need_command taskset
need_mnist
[ -x "$BUILD/bench/softmax" ] || skip_all "needs the programs of 'make bench-build'"
export TMPDIR=$tmp
ran=

# bench SCRIPT ARGUMENTS...: must end with 0
bench()
{
    ran+=" $1"
    expect_exit 0 "$top/bench/$1" "${@:2}"
}

# sound ROWS: so many rows are in the tables of the last output, in which nothing is missing that
# could be a number
sound()
{
    local found
    found=$(awk -F'|' '
        function complain(why) { print why ": " $0; bad = 1; exit }
        !/^\|/ { line = 0; next }
        { for (i = 2; i < NF; i++) gsub(/^ +| +$/, "", $i) }
        ++line == 1 { columns = NF; split("", name); for (i = 2; i < NF; i++) name[i] = $i; next }
        line == 2 { next }
        NF != columns { complain("another number of cells") }
        { rows++ }
        {
            for (i = 2; i < NF; i++) {
                if ($i ~ /nan|inf/)
                    complain("no number")
                if (name[i] ~ /^(ratio|of peak|this \/ other)$/ && $i != "") {
                    if ($i !~ /^[0-9][0-9,]*(\.[0-9]+)?$/)
                        complain("ratio " $i)
                    ratios++
                }
                if (name[i] == "floor" && $i !~ /^-?$|^(at most )?[0-9.]+, (kept|missed)/)
                    complain("floor " $i)
            }
        }
        END { if (!bad) print rows + 0 " rows, " (ratios ? "with" : "no") " ratios" }' "$OUT")
    [[ $found = "$1 rows, "* ]] || fail "$found, not $1 rows"
    [ "${2:-with}" = no ] || [[ $found = *"with ratios" ]] || fail "$found"
}

case_ "softmax.sh: six rows against GEMM, and a table of instruction sets"
TURN=0.01 bench softmax.sh 1
sound 8

case_ "target.sh: softmax to its target, LeNet for a few steps"
STEPS=5 bench target.sh 1
sound 12 no
expect_out '^\| start to first step, from outside .* at most 0\.1, (kept|missed) '

case_ "workers.sh: in threads, over MPI, and round trips"
STEPS=100 bench workers.sh 1
sound 13
expect_out '^\| round trips of 31 KB.* /s .* 2000, (kept|missed) '

case_ "logreg.sh: the sweep, the program, the testbed"
ROWS=1000 FEATURES=5000 bench logreg.sh 1
sound $((3 * ($(nproc) > 1 ? 5 : 3) + 7 + ($(id -u) == 0 ? 2 : 0)))

case_ "matmul.sh: one process, two and four"
N=256 bench matmul.sh 1
sound 4

case_ "alexnet.sh: against bare primitives"
BATCH=1 STEPS=1 bench alexnet.sh 1
sound 7

case_ "alexnet_table.sh: beside what was published"
NET=lenet BATCHES=32 WORKERS='1 2' STEPS=2 bench alexnet_table.sh
sound 2 no
expect_out '^\| +1 \| +32 \| +[0-9]+ / 3516 \|'

# A busy moment in the shorter of two runs makes their difference negative; the script says so and
# gives up.
case_ "wire.sh: a testbed of two hosts"
if [ "$(id -u)" = 0 ]; then
    ran+=" wire.sh"
    if NET=lenet MODES=sync BATCH=1 STEPS=100 HOSTS=2 run "$top/bench/wire.sh" 1; then
        sound 3
    else
        expect_err 'more steps took less time; something else keeps this machine busy'
    fi
else
    skip "needs root"
fi

case_ "against.sh: a program against itself"
few='^(peak memory, softmax|start-up|logreg, from text|softmax, batch 100)$'
PART=0.002 bench against.sh --rounds 1 --only "$few" "$BUILD/yoke"
sound 4
# shellcheck disable=SC2016 # awk's
expect awk -F'|' '/peak memory/ { ratio = $6 } END { exit !(ratio > 0.9 && ratio < 1.1) }' "$OUT"
expect_exit 2 "$top/bench/against.sh" --rounds 0 "$BUILD/yoke"
expect_exit 2 "$top/bench/against.sh" no-such-program

case_ "run.sh: the machine before the figures, and both kept"
ONLY=lanes TURN=0.05 RESULTS=$tmp/results bench run.sh 1
sound 16 no
isa=$(basename "$tmp"/results/lanes.*.md .md)
expect grep -qE "^\*$(date +%Y)-[-0-9]{5}, ${isa#lanes.}, .* cores, .* of the processors" \
    "$tmp/results/$isa.md"
expect_same "$(grep -c '^|' "$tmp/results/$isa.md")" "$(grep -c '^|' "$OUT")"
ISA=plain ONLY=lanes TURN=0.05 RESULTS=$tmp/results bench run.sh 1
expect test -s "$tmp/results/lanes.plain.md"

case_ "nothing in bench/ is left out"
for script in "$top"/bench/*.sh; do
    case " lib.sh peers.sh publish.sh wire.sh$ran " in
    *" ${script##*/} "*) ;;
    *) fail "no case runs ${script##*/}" ;;
    esac
done

case_ "the programs that call peers compile"
for program in "$top"/bench/peers/*.py; do
    expect_exit 0 env PYTHONPYCACHEPREFIX="$tmp/pyc" /usr/bin/python3 -m py_compile "$program"
done

case_ "the READMEs show what scripts printed, and a figure that was typed is found"
expect_exit 0 "$top/bench/publish.sh" --check
mkdir -p copy/bench
cp -r "$top"/bench/publish.* "$top/bench/README.md" "$top/bench/results" copy/bench
cp "$top/README.md" copy
expect_exit 0 env BUILD=build copy/bench/publish.sh --check
sed -i '/<!-- bench:softmax -->/,/<!-- .bench -->/s/[0-9]\.[0-9][0-9] |/9.99 |/' \
    copy/bench/README.md
expect_exit 1 env BUILD=build copy/bench/publish.sh --check
expect_err '9\.99'
expect_exit 0 env BUILD=build copy/bench/publish.sh
expect_exit 0 env BUILD=build copy/bench/publish.sh --check

case_ "new results are taken, but not those of a busy machine"
mkdir -p copy/build/results
new=copy/build/results
printf '*2026-01-01, avx2.*\n\n| batch | ratio |\n|---|---|\n| 60 | 7.77 |\n' >$new/softmax.avx2.md
sed 's/avx2\./BUSY, TRUST NO FIGURE./; s/7\.77/8.88/' $new/softmax.avx2.md >$new/lanes.avx2.md
expect_exit 1 env BUILD=build copy/bench/publish.sh
expect_err 'lanes.avx2.md is not taken: others used the machine'
expect_same "$(grep -c '7\.77' copy/bench/README.md) $(grep -c '8\.88' copy/bench/README.md)" "1 0"
expect_exit 0 env BUILD=build copy/bench/publish.sh --check
