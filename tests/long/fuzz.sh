#!/bin/bash
# fuzz.sh - every fuzz target under libFuzzer for FUZZ_SECONDS (60), one for each core at a time.
#
# Inputs that are worth keeping stay in $BUILD/corpus/NAME, made as small as possible: the next run
# goes on from there, and 'make test' replays them. An input that breaks a target is left beside it,
# as $BUILD/corpus/NAME-crash-..., and is the case's reason; the gcc build replays that too:
# build/san-1/tests/fuzz/NAME FILE.
. "$(dirname "$0")/../lib.sh"
need_command clang
seconds=${FUZZ_SECONDS:-60}
fuzzers=$BUILD/san-fuzz/tests/fuzz
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

case_ "the fuzz targets build"
expect_exit 0 make -C "$top" --no-print-directory -j "$(nproc)" \
    SAN=fuzz BUILD="$BUILD/san-fuzz" fuzz-tests
[ -z "$case_why" ] || exit 1

# Look for new inputs, then keep those that reach code which the others do not.
fuzz() # NAME
{
    local kept=$BUILD/corpus/$1 seeds=$top/tests/fuzz/corpus/$1
    local limits=(-rss_limit_mb=2048 -timeout=10 -verbosity=0 "-artifact_prefix=$kept-")
    mkdir -p "$kept" "found/$1" "least/$1"
    "$fuzzers/$1" "-max_total_time=$seconds" "${limits[@]}" "found/$1" "$kept" "$seeds" \
        >"$1.log" 2>&1 || return
    "$fuzzers/$1" -merge=1 "${limits[@]}" "least/$1" "found/$1" "$kept" >>"$1.log" 2>&1 || return
    rm -r "$kept" && mv "least/$1" "$kept" && touch "$1.done"
}

targets=$(cd "$top/tests/fuzz" && printf '%s\n' *.c | sed 's/\.c$//' | grep -vx driver)
for name in $targets; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
        wait -n
    done
    fuzz "$name" &
done
wait

for name in $targets; do
    case_ "$name survives $seconds s of new inputs"
    cp "$name.log" "$OUT"
    : >"$ERR"
    expect test -e "$name.done"
done
