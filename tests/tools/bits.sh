#!/bin/bash
# bits.sh - functions of the tests that compare the bits of runs with tests/golden/bits.tsv.
#
#   . "$(dirname "$0")/../lib.sh"
#   . "$top/tests/tools/helpers.sh"
#   . "$top/tests/tools/bits.sh"
#   check_bits grep -v '^mpi-'         rows of the table that the command lets through
#
#   tests/tools/bits.sh --write        run all rows with build/yoke (or BUILD=...), and write their
#                                      hashes into the table. A new row begins with any hash
#
# A row is NAME, instruction set, CPU, hash and command, with a tab between them; the table's own
# header explains them. A row whose instruction set the CPU lacks is skipped by its name, and so is
# one of oneDNN's that gives other bits on a CPU that the table does not know. Every other
# difference is a failure.

table=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/golden/bits.tsv

# oneDNN's choice of kernels and the sizes of their blocks depend on this, beside --isa.
bits_cpu()
{
    local library level
    library=$(ldd "$(command -v yoke)" | awk '/libdnnl/ { print $3 }')
    basename "$(readlink -f "$library")" | tr '\n' :
    for level in LEVEL1_DCACHE LEVEL2_CACHE LEVEL3_CACHE; do
        echo "$(($(getconf ${level}_SIZE) >> 10))k"
    done | paste -sd :
}

# Rows of sparse data, the same everywhere: 900 of them, 12 of 400 features each.
bits_rows()
{
    awk 'BEGIN {
        h = 1
        for (r = 0; r < 900; r++) {
            line = r % 3 == 0 ? "+1" : "-1"
            for (f = 0; f < 12; f++) {
                h = (h * 16807) % 2147483647
                line = line sprintf(" %d:%.4f", f * 33 + h % 33 + 1, h % 9973 / 9973 + 0.0001)
            }
            print line
        }
    }'
}

# bits_of COMMAND: the hash of the parameters that it ends with, run in a folder of its own. Its
# output is in $OUT and $ERR.
bits_of()
{
    local folder
    folder=$(mktemp -d ./bits.XXXXXX) || return 1
    bits_rows >"$folder/rows.svm"
    cp "$(dirname "$table")/norm.net" "$folder"
    (cd "$folder" && timeout -k 5 120 bash -c "$1") >"$OUT" 2>"$ERR" </dev/null &&
        sed -nE 's/^ *"params_xxh3": "([0-9a-f]+)".*/\1/p' "$folder/run/summary.json"
    local status=$?
    rm -rf "$folder"
    return $status
}

# Why this build on this machine has no answer to rows of an instruction set, or nothing.
bits_missing() # ISA
{
    [ "$1" != plain ] || return
    if ! yoke train softmax --isa "$1" --dry-run >"$OUT" 2>"$ERR" && grep -q "cannot run '$1'" \
        "$ERR"; then
        echo "this CPU lacks $1"
    elif ldd "$(command -v yoke)" | grep -qE 'lib(asan|tsan|ubsan)'; then
        echo "with sanitizers the compiler fuses nothing, and $1 has the bits of plain"
    fi
}

check_bits() # COMMAND... that lets rows through, for instance grep ^mpi-
{
    local name isa cpu hash command got missing here rows=0
    here=$(bits_cpu)
    while IFS=$'\t' read -r name isa cpu hash command <&3; do
        rows=$((rows + 1))
        case_ "$name, $isa"
        missing=$(bits_missing "$isa")
        if [ -n "$missing" ]; then
            skip "$missing"
        elif ! got=$(bits_of "$command"); then
            fail "this failed: $command"
        elif [ "$got" != "$hash" ] && [ "$cpu" != any ] && [ "$cpu" != "$here" ]; then
            skip "oneDNN's bits with ${isa/plain/sse4.1} are not known for this CPU, '$here'"
        elif [ "$got" != "$hash" ]; then
            fail "the parameters are '$got' and were '$hash' after: $command"
        fi
    done 3< <(grep -v '^#' "$table" | "$@")
    [ "$rows" -gt 0 ] || fail "the table has no such rows"
}

write_bits()
{
    local line name isa cpu hash command
    while IFS= read -r line <&3; do
        IFS=$'\t' read -r name isa cpu hash command <<<"$line"
        if [[ $line != \#* ]]; then
            hash=$(bits_of "$command") || {
                cat "$ERR" >&2
                echo "bits.sh: '$command' failed" >&2
                exit 1
            }
            [ "$cpu" = any ] || cpu=$(bits_cpu)
            line=$name$'\t'$isa$'\t'$cpu$'\t'$hash$'\t'$command
        fi
        printf '%s\n' "$line"
    done 3<"$table"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    [ "${1:-}" = --write ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0" && exit 2; }
    . "$(dirname "$0")/../lib.sh"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    write_bits >"$tmp/table" && cp "$tmp/table" "$table"
fi
