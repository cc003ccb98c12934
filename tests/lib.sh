# shellcheck shell=bash
# lib.sh - gives a test script a folder of its own, yoke on the PATH, and cases that count. Every
# script sources it first.
#
#   . "$(dirname "$0")/../lib.sh"
#   case_ "a mistyped option is answered with the right one"
#   expect_exit 2 yoke train softmax --bach 10
#   expect_err "did you mean '--batch'"
#
# A case lasts until the next one or the end of the script. It passes if none of its expectations
# failed; else the first that did is its reason. Each case prints one line for run.sh to count:
# 'ok NAME', 'not ok NAME: why' or 'SKIP NAME: why'.
#
# The script runs in an empty temporary folder, which is removed at the end, and sees no yoke.ini of
# the user. The cache is the user's, so that MNIST is fetched once; private_cache gives an empty
# one.
#
# To run one script: tests/cli/x.sh, or BUILD=build/san-1 tests/cli/x.sh for sanitizers.
set -u

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$(cd "$top" && cd "${BUILD:-build}" && pwd) || exit 1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-test.XXXXXX") || exit 1
mkdir "$tmp/work" "$tmp/config"
export BUILD PATH="$BUILD:$PATH" XDG_CONFIG_HOME="$tmp/config" LC_ALL=C
unset T TF_CONFIG NO_COLOR MAKEFLAGS MAKELEVEL MFLAGS
cd "$tmp/work" || exit 1
OUT=$tmp/stdout ERR=$tmp/stderr # of the last expect_exit
touch "$OUT" "$ERR"

# A sanitizer's findings in any process go into a file and fail the case, wherever the streams of
# the process lead. yoke itself never ends with status 99.
export SANITIZED
SANITIZED=$(grep -so -e '-fsanitize=[a-z,]*' "$BUILD/link-flags")
found=$tmp/found
common=log_path=$found:exitcode=99
export ASAN_OPTIONS=$common:detect_stack_use_after_return=1:fast_unwind_on_malloc=0 \
    UBSAN_OPTIONS=$common:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$top/tests/tools/lsan.txt:print_suppressions=0
export TSAN_OPTIONS=$common:suppressions=$top/tests/tools/tsan.txt

case_name='' case_why='' case_skip='' failures=0

# A command that does not exist fails the case, even if the script ignores its status. Bash calls
# this function in a subshell.
command_not_found_handle()
{
    echo "there is no command '$1'" | tee -a "$tmp/absent" >&2
    return 127
}

end_case()
{
    if [ -s "$tmp/absent" ]; then
        fail "$(head -n 1 "$tmp/absent")"
        : >"$tmp/absent"
    fi
    if compgen -G "$found.*" >/dev/null; then
        fail "a sanitizer found something: $(cat "$found".* |
            grep -m 1 -E 'ERROR|WARNING|runtime error')"
        cat "$found".* | head -n 60
        rm -f "$found".*
    fi
    if [ -z "$case_name" ]; then
        return
    elif [ "$case_why" ]; then
        echo "not ok $case_name: $case_why"
        failures=$((failures + 1))
    elif [ "$case_skip" ]; then
        echo "SKIP $case_name: $case_skip"
    else
        echo "ok $case_name"
    fi
    case_name='' case_why='' case_skip=''
}

at_exit()
{
    local status=$?
    if [ "$status" != 0 ] && [ "$status" != 77 ]; then
        fail "the script ended here with status $status"
    fi
    end_case
    cd / && rm -rf --one-file-system "$tmp"
    [ "$failures" = 0 ] || status=1
    trap - EXIT
    exit "$status"
}
trap at_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

case_()
{
    end_case
    case_name=$1
}

# The case fails. Only its first reason is shown, after the output of the last command.
fail()
{
    [ -n "$case_name" ] || case_name=${0##*/}
    if [ -z "$case_why" ]; then
        case_why=$1
        sed 's/^/    stdout: /' "$OUT" | tail -n 20
        sed 's/^/    stderr: /' "$ERR" | tail -n 20
    fi
}

skip() # the case does not count, and says why
{
    case_skip=$1
}

skip_all() # nor does the rest of the script
{
    end_case
    echo "$1"
    exit 77
}

need_command()
{
    command -v "$1" >/dev/null 2>&1 || skip_all "needs the command '$1'"
}

need_root()
{
    [ "$(id -u)" = 0 ] || skip_all "needs root"
}

need_mnist()
{
    yoke data fetch mnist >"$OUT" 2>"$ERR" || skip_all "needs MNIST: $(head -n 1 "$ERR")"
}

private_cache() # an empty cache for this script alone
{
    mkdir -p "$tmp/cache"
    export XDG_CACHE_HOME="$tmp/cache"
}

run() # COMMAND...: run it and keep its output; its status is the function's
{
    "$@" >"$OUT" 2>"$ERR" </dev/null
}

expect_exit() # CODE COMMAND...
{
    local want=$1 got=0
    shift
    run "$@" || got=$?
    [ "$got" = "$want" ] || fail "'$*' ended with status $got, not $want"
}

expect_out() # REGEX (grep -E) that some line of stdout must match
{
    grep -qE -- "$1" "$OUT" || fail "stdout does not match '$1'"
}

expect_err()
{
    grep -qE -- "$1" "$ERR" || fail "stderr does not match '$1'"
}

expect_no_out()
{
    [ ! -s "$OUT" ] || fail "stdout is not empty"
}

expect_no_err()
{
    [ ! -s "$ERR" ] || fail "stderr is not empty"
}

expect() # COMMAND... that must succeed: expect test -f runs/latest/summary.json
{
    "$@" || fail "not true: $*"
}

# The scalar under KEY in a JSON file (stdout of the last command by default), without its quotes.
json() # KEY [FILE]
{
    sed -nE "s/^.*\"$1\": *(\"([^\"]*)\"|([^\",}]*)).*/\2\3/p" "${2:-$OUT}" | head -n 1
}
