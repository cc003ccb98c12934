#!/bin/bash
# run.sh - runs the tests and counts them.
#
#   tests/run.sh SET...                  T=pattern: tests whose name matches it (an extended regex)
#   tests/run.sh --goals BUILD SET...    the goals of make that they need: plain, san-1, san-thread
#   tests/run.sh --goals mnist SET...    'mnist' if a test needs it
#
# unit: every *_test plain and with AddressSanitizer and UBSan (NAME:san-1), those of
# tests/threaded.txt with ThreadSanitizer (NAME:san-thread). fuzz: every corpus once through its
# target. cli, mpi, cluster, long: the scripts of those folders. quick: plain unit tests and six
# scripts.
#
# Tests run side by side, one for each core, those that took longest last time first. Comments at
# the head of a script change that:
#   # alone: WHY      nothing runs beside it: it measures, or looks at the whole machine
#   # make: GOAL      make makes GOAL for it instead of the program alone; the programs that it
#                     asks for with 'tool NAME...' are always made
#   # san-1: WHAT     it runs once more with that build's program, san-thread likewise; it leaves
#                     out slow cases by itself where $SANITIZED is set
#
# A test is stopped after LIMIT seconds. Each prints one line with its time; a failing one also
# shows its output, and one with skips their reasons. The last line, 'N passed, N failed, N
# skipped', counts the cases inside the tests.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build} T=${T:-} LIMIT=${LIMIT:-600}
export BUILD T LIMIT

# sum REGEX: the numbers that REGEX captures in the log, added up
sum()
{
    sed -nE "s/$1/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'
}

# The counts of a test, from its output: passed, failed, skipped.
count()
{
    case $kind in
    unit)
        passed=$(grep -c '^\[       OK \]' "$log")
        failed=$(sum '^\[  FAILED  \] ([0-9]+) test\(s\).*')
        skipped=$(sum '^\[  SKIPPED \] ([0-9]+) test\(s\).*')
        ;;
    script)
        passed=$(grep -c '^ok ' "$log")
        failed=$(grep -c '^not ok ' "$log")
        skipped=$(grep -c '^SKIP ' "$log")
        if [ "$status" = 77 ]; then
            echo "SKIP the rest: $(tail -n 1 "$log")" >>"$log"
            skipped=$((skipped + 1)) status=0
        fi
        ;;
    *)
        passed=0 failed=0 skipped=0
        [ "$status" != 0 ] || passed=1
        ;;
    esac
    if [ "$status" = 0 ] && [ $((passed + failed + skipped)) = 0 ]; then
        status="nothing ran" # a test that tests nothing is a mistake
    fi
    if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
        failed=1
    fi
}

# One test: run it, print its line, leave its counts in $results. Called as 'run.sh --job NAME KIND
# COMMAND...'.
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
    echo "$name $((seconds / 10)) $passed $failed $skipped" >"$log.counts"
    { # one write, so that lines of parallel tests do not mix
        printf '%-4s %-44s %4d passed %7d.%d s\n' "$word" "$name" "$passed" $((seconds / 10)) \
            $((seconds % 10))
        if [ $word = FAIL ]; then
            sed 's/^/    /' "$log" | tail -n 200
            [ "$status" = 0 ] || echo "    status: $status"
        elif [ $word = SKIP ]; then
            grep -E '^(SKIP |\[  SKIPPED \] [^0-9])' "$log" | sort -u | sed 's/^/    /'
        fi
    } >"$log.report"
    cat "$log.report"
}

if [ "${1:-}" = --job ]; then
    shift
    job "$@"
    exit 0
fi

# --- the plan: a line is QUEUE BUILD GOAL,GOAL... MNIST, and a job to be called as above ---

plan=

# Sanitizers want addresses where they expect them; newer kernels spread them more than gcc 12's
# know.
calm=
setarch -R true 2>/dev/null && calm='setarch -R '

# The folder of a build, the suffix of its tests' names, and the prefix of their commands.
build_is() # plain|san-1|san-thread
{
    folder=$BUILD/$1 suffix=:$1 before=$calm
    [ "$1" != plain ] || { folder=$BUILD suffix='' before=''; }
}

add() # QUEUE BUILD GOALS SOURCE NAME KIND COMMAND
{
    local mnist=no
    if [ -n "$T" ] && [[ ! $5 =~ $T ]]; then
        return
    fi
    ! grep -qsE 'need_mnist|/mnist\.h"|data fetch mnist' "$4" || mnist=mnist
    plan+="$1 $2 $3 $mnist --job $5 $6 $7"$'\n'
}

add_unit() # BUILD...
{
    local source name build folder suffix before
    for source in src/*/*_test.c src/*/*/*_test.c; do
        [ -e "$source" ] || continue
        name=${source#src/}
        name=${name%.c}
        for build; do
            [ "$build" != san-thread ] || grep -qxF "$name" tests/threaded.txt || continue
            build_is "$build"
            add shared "$build" "$folder/src/$name" "$source" \
                "$name$suffix" unit "$before$folder/src/$name"
        done
    done
}

# What test-long's fuzzers have found worth keeping lies in $BUILD/corpus; it is replayed too.
add_fuzz()
{
    local source name seeds folder suffix before
    build_is san-1
    for source in tests/fuzz/*.c; do
        name=$(basename "$source" .c)
        if [ "$name" = driver ] || [ ! -e "$source" ]; then
            continue
        fi
        seeds=tests/fuzz/corpus/$name
        [ ! -d "$BUILD/corpus/$name" ] || seeds+=" $BUILD/corpus/$name"
        add shared san-1 "$folder/tests/fuzz/$name" "$source" \
            "fuzz/$name" fuzz "$before$folder/tests/fuzz/$name $seeds"
    done
}

add_scripts() # SCRIPT...
{
    local script head queue goal goals tool tools build folder suffix before
    for script; do
        [ -e "$script" ] || continue
        head=$(head -n 20 "$script")
        queue=shared
        ! grep -q '^# alone: ' <<<"$head" || queue=alone
        goal=$(sed -n 's/^# make: //p' <<<"$head")
        tools=$(sed -nE 's/^ *tool ([a-z_/ ]+)$/\1/p' "$script")
        for build in plain $extra; do
            [ "$build" = plain ] || grep -q "^# $build: " <<<"$head" || continue
            build_is "$build"
            goals=${goal:-all}
            for tool in $tools; do
                [[ $tool = */* ]] || tool=tools/$tool
                goals+=,$folder/tests/$tool
            done
            add $queue "$build" "$goals" "$script" \
                "${script#tests/}$suffix" script "env BUILD=$folder ${before}bash $script"
        done
    done
}

make_plan() # SET...
{
    local set extra='san-1 san-thread'
    for set; do
        case $set in
        unit) add_unit plain san-1 san-thread ;;
        fuzz) add_fuzz ;;
        cli | mpi | cluster | long) add_scripts tests/"$set"/*.sh ;;
        quick)
            extra=''
            add_unit plain
            add_scripts tests/cli/{train,resume,logreg,rows,net,tensorboard}.sh
            ;;
        *) echo "run.sh: no such set of tests: '$set'" >&2; exit 2 ;;
        esac
    done
}

if [ "${1:-}" = --goals ]; then
    build=$2
    shift 2
    make_plan "$@"
    if [ "$build" = mnist ]; then
        ! grep -q '^[^ ]* [^ ]* [^ ]* mnist ' <<<"$plan" || echo mnist
    else
        awk -v build="$build" '$2 == build { print $3 }
            $4 == "mnist" && build == "plain" { print "all" }' <<<"$plan" | tr ',' '\n' | sort -u
    fi
    exit 0
fi

# --- run it ---

make_plan "$@"
if [ -z "$plan" ]; then
    echo "run.sh: no test matches '$T'" >&2
    exit 1
fi
results=$(mktemp -d "${TMPDIR:-/tmp}/yoke-results.XXXXXX") || exit 1
export results
trap 'rm -rf "$results"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=$PWD/tests/tools/tsan.txt}
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# How long each test took last time; one that is new goes first.
times=$BUILD/test-times
touch "$times"
queue() # NAME: the jobs of that queue, the longest first
{
    awk -v queue="$1" 'FILENAME == ARGV[1] { took[$1] = $2; next }
        $1 == queue { print $6 in took ? took[$6] : 1000, $0 }' "$times" - <<<"$plan" |
        sort -s -k1,1nr | cut -d' ' -f6-
}
queue shared | xargs -r -P "$(nproc)" -L 1 bash tests/run.sh
queue alone | xargs -r -L 1 bash tests/run.sh

cat "$results"/*.counts >"$results/all" 2>/dev/null
awk '!seen[$1]++ { print $1, $2 }' "$results/all" "$times" >"$results/times"
cp "$results/times" "$times"
awk -v jobs="$(grep -c . <<<"$plan")" '
    { passed += $3; failed += $4; skipped += $5 }
    END {
        failed += jobs - NR # a job that left no counts was killed
        printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed > 0
    }' "$results/all"
