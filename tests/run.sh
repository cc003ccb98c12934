#!/bin/bash
# run.sh - runs the tests and counts them.
#
#   tests/run.sh unit|cli|mpi|cluster|fuzz|long...      T=pattern runs only tests whose name matches it (an extended regex)
#
# unit: every *_test in $BUILD, in $BUILD/san-1 (AddressSanitizer, UBSan) and in $BUILD/san-thread. fuzz: every target for
# 10 s of libFuzzer, and its corpus once through the gcc build. Both in parallel. cli, mpi, cluster and long: the scripts in those folders, one
# after the other, since some of them measure. A test is stopped after LIMIT seconds. Each test is one line with its time, a
# failing one also shows its output; what counts are the cases inside it. The last line is 'N passed, N failed, N skipped'.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} T=${T:-} LIMIT=${LIMIT:-300}
export BUILD T LIMIT

# sum REGEX: the numbers that REGEX captures in the log, added up
sum()
{
    sed -nE "s/$1/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'
}

# The counts of a test, from what it wrote: passed, failed, skipped.
count()
{
    case $kind in
    unit)
        passed=$(grep -c '^\[       OK \]' "$log")
        failed=$(sum '^\[  FAILED  \] ([0-9]+) test\(s\).*')
        skipped=$(sum '^\[  SKIPPED \] ([0-9]+) test\(s\).*')
        if [ "$status" = 0 ] && [ $((passed + failed + skipped)) = 0 ]; then
            status="nothing ran" # a test that tests nothing is a mistake
        fi
        ;;
    script)
        passed=$(grep -c '^ok ' "$log")
        failed=$(grep -c '^not ok ' "$log")
        skipped=$(grep -c '^SKIP ' "$log")
        if [ "$status" = 77 ]; then
            echo "SKIP the rest: $(tail -n 1 "$log")" >>"$log"
            skipped=$((skipped + 1)) status=0
        elif [ "$status" = 0 ] && [ $((passed + failed + skipped)) = 0 ]; then
            passed=1
        fi
        ;;
    *)
        passed=1 failed=0 skipped=0
        ;;
    esac
    if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
        failed=1
        [ "$kind" = unit ] || [ "$kind" = script ] || passed=0
    fi
}

# One test: run it, print its line, leave its counts in $results. Called as 'run.sh --job NAME KIND COMMAND...'.
job()
{
    local name=$1 kind=$2 log start seconds status=0 passed failed skipped word
    shift 2
    log=$results/${name//\//_}.log
    start=${EPOCHREALTIME/./}
    timeout -k 5 "$LIMIT" "$@" >"$log" 2>&1 </dev/null || status=$?
    seconds=$(((${EPOCHREALTIME/./} - start) / 100000))
    case $status in
    124 | 137) status="stopped after $LIMIT s" ;;
    esac
    count
    word=ok
    [ "$skipped" = 0 ] || word=SKIP
    [ "$failed" = 0 ] || word=FAIL
    echo "$passed $failed $skipped" >"$log.counts"
    { # one write, so that lines of parallel tests do not mix
        printf '%-4s %-44s %4d passed %7d.%d s\n' "$word" "$name" "$passed" $((seconds / 10)) $((seconds % 10))
        if [ $word = FAIL ]; then
            sed 's/^/    /' "$log" | tail -n 200
            [ "$status" = 0 ] || echo "    status: $status"
        elif [ $word = SKIP ]; then
            grep -E '^(SKIP |\[  SKIPPED \] [^0-9])' "$log" | sed 's/^/    /'
        fi
    } >"$log.report"
    cat "$log.report"
}

if [ "${1:-}" = --job ]; then
    shift
    job "$@"
    exit 0
fi

results=$(mktemp -d "${TMPDIR:-/tmp}/yoke-results.XXXXXX") || exit 1
export results
trap 'rm -rf "$results"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
touch "$results/parallel" "$results/serial"

# Sanitizers want addresses where they expect them; newer kernels spread them more than gcc 12's know.
calm=
setarch -R true 2>/dev/null && calm='setarch -R'
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# add QUEUE NAME KIND COMMAND: one line of the queue is one job
add()
{
    if [ -z "$T" ] || [[ $2 =~ $T ]]; then
        echo "--job $2 $3 $4" >>"$results/$1"
    fi
}

add_unit()
{
    local variant source name
    for source in src/*/*_test.c; do
        [ -e "$source" ] || continue
        name=${source#src/}
        name=${name%.c}
        for variant in '' san-1 san-thread; do
            if [ -x "$BUILD/$variant/src/$name" ]; then
                add parallel "$name${variant:+:$variant}" unit "${variant:+$calm }$BUILD/${variant:+$variant/}src/$name"
            elif [ "$variant" != san-thread ]; then # only modules with threads are built for it
                add parallel "$name${variant:+:$variant}" unit false
            fi
        done
    done
}

add_fuzz()
{
    local source name seeds grown
    for source in tests/fuzz/*.c; do
        name=$(basename "$source" .c)
        if [ "$name" = driver ] || [ ! -e "$source" ]; then
            continue
        fi
        seeds=tests/fuzz/corpus/$name
        grown=$BUILD/corpus/$name
        mkdir -p "$grown"
        add parallel "fuzz/$name:replay" fuzz "$calm $BUILD/san-1/tests/fuzz/$name $seeds"
        add parallel "fuzz/$name" fuzz "$calm $BUILD/san-fuzz/tests/fuzz/$name -max_total_time=10 -rss_limit_mb=2048 -timeout=10 \
-verbosity=0 -artifact_prefix=$BUILD/corpus/$name- $grown $seeds"
    done
}

add_scripts()
{
    local script
    for script in tests/"$1"/*.sh; do
        [ ! -e "$script" ] || add serial "${script#tests/}" script "bash $script"
    done
}

for set in "$@"; do
    case $set in
    unit) add_unit ;;
    fuzz) add_fuzz ;;
    cli | mpi | cluster | long) add_scripts "$set" ;;
    *) echo "run.sh: no such set of tests: '$set'" >&2; exit 2 ;;
    esac
done

xargs -r -P "$(nproc)" -L 1 bash tests/run.sh <"$results/parallel"
xargs -r -L 1 bash tests/run.sh <"$results/serial"

jobs=$(cat "$results/parallel" "$results/serial" | wc -l)
if [ "$jobs" = 0 ]; then
    echo "run.sh: no test matches '$T'" >&2
    exit 1
fi
cat "$results"/*.counts 2>/dev/null | awk -v jobs="$jobs" '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        failed += jobs - NR # a job that left no counts was killed
        printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed > 0
    }'
