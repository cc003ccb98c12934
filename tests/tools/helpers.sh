# shellcheck shell=bash
# helpers.sh - functions that the tests of training share, on top of lib.sh: they expect errors as a
# user should see them, and bring the small programs beside this file, which read yoke's files
# without any of its code.
#
#   . "$(dirname "$0")/../lib.sh"
#   . "$top/tests/tools/helpers.sh"
: "${top:?lib.sh comes first}" "${tmp:?}"

# tool NAME...: put programs of tests/tools (json_check) or another folder of tests (mpi/comm) onto
# the PATH. 'make test' has built them, which it says by MADE; a script that is run by itself asks
# make for them.
tool()
{
    local name programs=() sanitizer=()
    for name; do
        [[ $name = */* ]] || name=tools/$name
        programs+=("${BUILD#"$top/"}/tests/$name")
        PATH=$BUILD/tests/${name%/*}:$PATH
    done
    [ -z "${MADE:-}" ] || return
    case $SANITIZED in
    *address*) sanitizer=(SAN=1) ;;
    *thread*) sanitizer=(SAN=thread) ;;
    esac
    if ! make -s -C "$top" BUILD="${BUILD#"$top/"}" "${sanitizer[@]}" "${programs[@]}"; then
        case_ "programs of the test build: $*"
        fail "make failed"
        exit 1
    fi
}

# The last command said one sentence and at most one hint, and nothing else anywhere.
expect_one_sentence()
{
    expect_no_out
    [ "$(grep -c '^yoke: ' "$ERR")" = 1 ] || fail "not exactly one line starts with 'yoke: '"
    [ "$(grep -c '^hint: ' "$ERR")" -le 1 ] || fail "more than one hint"
    ! grep -qEv '^(yoke|hint): ' "$ERR" || fail "stderr has other lines"
    head -n 1 "$ERR" | grep -q '^yoke: ' || fail "the hint comes before the sentence"
}

expect_error() # CODE REGEX COMMAND...: the command ends with CODE and one sentence that matches
{
    local code=$1 regex=$2
    shift 2
    expect_exit "$code" "$@"
    expect_one_sentence
    grep '^yoke: ' "$ERR" | grep -qE -- "$regex" ||
        fail "the sentence of '$*' does not match '$regex'"
}

expect_same() # A B: both there, and equal
{
    if [ -z "$1" ] || [ "$1" != "$2" ]; then
        fail "'$1' is not '$2'"
    fi
}

expect_no_runs() # nothing was left in the folder
{
    [ ! -e runs ] || fail "a run folder was left: $(ls runs)"
}

params_of() # RUN: the hash of its final parameters
{
    json params_xxh3 "$1/summary.json"
}

checkpoints_of() # RUN: the names of its checkpoints, oldest first
{
    find "$1/checkpoints" -name '*.safetensors' -printf '%f\n' | sort
}

newest_of() # RUN: the path of its newest checkpoint
{
    echo "$1/checkpoints/$(checkpoints_of "$1" | tail -n 1)"
}

# Wait until COMMAND holds, a minute at most.
wait_until()
{
    local n
    for ((n = 0; n < 6000; n++)); do
        "$@" && return 0
        sleep 0.01
    done
    fail "waited in vain until: $*"
    return 1
}

# begin RUN ARGS...: yoke train in the background, its process in $pid, waiting until RUN has a
# checkpoint.
begin()
{
    local run=$1
    shift
    yoke train "$@" >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
    wait_until eval "ls $run/checkpoints/*.safetensors >/dev/null 2>&1"
}

# ended CODE: the process of begin ends with it. Bash's word about a killed job is not wanted.
ended()
{
    local got=0
    { wait "$pid" || got=$?; } 2>/dev/null
    [ "$got" = "$1" ] || fail "the training ended with status $got, not $1"
}

big_endian() # N...: four bytes each
{
    local n
    for n; do
        # shellcheck disable=SC2059 # the format is the point
        printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((n >> 24 & 255)) $((n >> 16 & 255)) \
            $((n >> 8 & 255)) $((n & 255)))"
    done
}

# tiny FOLDER PART ROWS HEIGHT WIDTH CLASSES: PART (train or t10k) of a data set in IDX files, the
# same bytes every time.
tiny()
{
    local folder=$1 part=$2 rows=$3 height=$4 width=$5 classes=$6 i
    mkdir -p "$folder"
    { big_endian $((0x803)) "$rows" "$height" "$width" && seq "$((rows * height * width))" |
        head -c $((rows * height * width)); } >"$folder/$part-images-idx3-ubyte"
    {
        big_endian $((0x801)) "$rows"
        for ((i = 0; i < rows; i++)); do
            # shellcheck disable=SC2059
            printf "\\x$(printf %02x $((i % classes)))"
        done
    } >"$folder/$part-labels-idx1-ubyte"
}

# expect_exit_in "CODES" COMMAND...: one of the codes, with one sentence
expect_exit_in()
{
    local codes=$1 got=0
    shift
    run "$@" || got=$?
    case " $codes " in
    *" $got "*) ;;
    *) fail "'$(cut -c1-100 <<<"$*")' ended with status $got, none of $codes" ;;
    esac
    expect_one_sentence
}

to_full() # COMMAND...: its results meet a full disk
{
    "$@" >/dev/full
}
