#!/bin/bash
# mutations.sh - makes one mistake after the other in a copy of the tree, and expects a named test
# to find each.
#
#   ONLY=regex tests/long/mutations.sh        only the mistakes whose names match
#
# A mistake is a line of tests/long/mutations.tsv: its name, the file, a substitution for sed, and
# the test that must fail. The substitution must change the file and the result must compile: a line
# that does neither is out of date and fails its case. A test is a unit test (strategy/clock_test)
# or a script (mpi/launch.sh); each passes first on the tree as it is.
. "$(dirname "$0")/../lib.sh"
table=$top/tests/long/mutations.tsv
copy=$tmp/copy

# build TEST: compile for the test, in the copy
build()
{
    local target=all
    [[ $1 == *.sh ]] || target=$BUILD_NAME/src/$1
    make -s -C "$copy" -j"$(nproc)" BUILD="$BUILD_NAME" "$target" >"$OUT" 2>"$ERR" </dev/null
}

# try TEST: run it in the copy; the status is the test's
try()
{
    if [[ $1 == *.sh ]]; then
        BUILD=$copy/$BUILD_NAME timeout -k 5 600 bash "$copy/tests/$1"
    else
        (cd "$copy" && timeout -k 5 120 "$BUILD_NAME/src/$1")
    fi >"$OUT" 2>"$ERR" </dev/null
}

# The first case that failed, by its name.
caught_by()
{
    cat "$OUT" "$ERR" |
        sed -nE 's/^\[  FAILED  \] ([a-z][a-z0-9_]*)$/\1/p; s/^not ok ([^:]*):.*/\1/p' | head -n 1
}

BUILD_NAME=build
mkdir "$copy"
(cd "$top" && git ls-files -z | xargs -0 cp --parents -pt "$copy" && cp -a --parents build/obj \
    build/headers-found "$copy") ||
    skip_all "needs a git checkout that is built in build/"

declare -A passes
while IFS=$'\t' read -r name file edit test; do
    case $name in
    '' | '#'*) continue ;;
    esac
    [[ $name =~ ${ONLY:-.} ]] || continue
    case_ "$name is found by $test"
    if [ -z "${passes[$test]:-}" ]; then
        build "$test" || fail "the tree does not compile as it is"
        passes[$test]=no
        try "$test" && passes[$test]=yes
    fi
    [ "${passes[$test]}" = yes ] || fail "$test fails on the tree as it is"
    cp -p "$copy/$file" "$tmp/whole"
    sed -i -E "$edit" "$copy/$file"
    if cmp -s "$copy/$file" "$tmp/whole"; then
        fail "the substitution changes nothing in $file"
    elif ! build "$test"; then
        fail "$file does not compile any more"
    elif try "$test"; then
        fail "$test passes all the same"
    else
        echo "# $name: $(caught_by)"
    fi
    cp "$tmp/whole" "$copy/$file" # with a new time, so that make sees it
done <"$table"
