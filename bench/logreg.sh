#!/bin/bash
# logreg.sh - sparse logistic regression: the sweep against a bare loop, then the whole program on text, from its cache and on a testbed.
#
#   BUILD=build bench/logreg.sh [ROUNDS]     5 rounds unless said otherwise; ROWS=20000 in the environment: fewer rows than a million
#
# The data is synth-criteo, 39 entries a row out of 33,762,578 features. `bench/logreg` measures the sweep alone (see its source).
# The program trains on libsvm text in file order by batches of one row, on one thread: `text` from an empty cache, seconds from its start
# to the end of training, so reading, writing the cache and training are all in; `cache` the same command again, training only, as a ratio
# to the bare loop of the same round. What `text` has to beat is three times what Vowpal Wabbit (--onethread) was once measured at on the
# machine of bench/README.md: 568,000 rows/s with --sgd and 379,000 with its default, which stands against adagrad, and whose progressive
# log loss was 0.453. It is not measured here, as Debian has no package of it, and its rows were other ones of the same kind, 356 bytes
# each. Parsing is user time on one thread, less that of the same command from the cache.
# On the testbed there are five hosts at 1.8 Gbit/s, one of them the owner's, and 200,000 rows by batches of 100 a worker; seconds are
# training only. A key counts once for every batch that touches it.
# Floors that depend on the number of rows are judged at the full number only. Exit status 0 unless something is broken.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(cd "${BUILD:-build}" && pwd) || exit 1
rounds=${1:-5} rows=${ROWS:-1000000}
if ! [[ $rounds =~ ^[1-9][0-9]?$ && $rows =~ ^[1-9][0-9]{3,7}$ ]]; then
    echo "usage: [ROWS=1000..99999999] bench/logreg.sh [1..99]" >&2
    exit 2
fi
tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-bench.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1
mkdir config
export XDG_CONFIG_HOME=$tmp/config XDG_CACHE_HOME=$tmp/cache LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
TIMEFORMAT=%U

echo "sparse logistic regression: the sweep against a bare loop"
"$build/bench/logreg" --rounds "$rounds" --rows "$rows" || exit
"$build/yoke" data synth criteo --rows "$rows" -o train.libsvm --quiet || exit
bytes=$(stat -c %s train.libsvm)
sync # what was just written would otherwise compete with what is measured

# json KEY: numbers under KEY in the last run's summary, one a line
json()
{
    sed -nE "s/^ *\"$1\": *([-0-9.e]*),?$/\1/p" summary
}

# train OPTIONS...: one run of ${program[@]}, its summary into the file summary
program=("$build/yoke")
train()
{
    rm -rf run
    "${program[@]}" train logreg "$@" --run run --json --quiet >summary 2>log || { cat log >&2; exit 1; }
}

# text NAME RATE: one pass over the text and one from the cache
text()
{
    local pass=(--data train.libsvm --shuffle-buffer 1 --batch 1 --threads 1 --optimizer "$1" --lr "$2" --eval-every "$rows"
        --checkpoint-every "$rows")
    rm -rf cache
    sync
    train "${pass[@]}"
    echo "$rows $(json startup_seconds) $(json seconds | head -n 1)" | awk '{ print $1 / ($2 + $3) }' >>"$1.text"
    json progressive_loss >"$1.loss"
    train "${pass[@]}"
    json examples_per_second >>"$1.cache"
    "$build/bench/logreg" --rounds 1 --rows "$rows" --threads 1 --optimizer "$1" | awk '/bare loop  / { print $3 }' >>"$1.bare"
}

# parse: MB of text a second of one core
parse()
{
    local first again
    first=$({ time XDG_CACHE_HOME=/dev/null/none "$build/yoke" data info train.libsvm --threads 1 >/dev/null 2>log; } 2>&1)
    again=$({ time "$build/yoke" data info train.libsvm --threads 1 >/dev/null 2>log; } 2>&1)
    echo "$bytes $first $again" | awk '{ print $1 / 1e6 / ($2 - $3 > 0.001 ? $2 - $3 : 0.001) }' >>parse
}

for _ in $(seq 0 "$rounds"); do # round 0 warms up and is not counted
    text sgd 0.005
    text adagrad 0.1
    parse
done

middle()
{
    tail -n +2 "$1" | sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
# ratio A B: the median over the rounds of A to B
ratio()
{
    paste "$1" "$2" | awk '{ print $1 / $2 }' >"$1.ratio"
    middle "$1.ratio"
}
# line LABEL VALUE UNIT FLOOR SIGN [VALUE THAT IS JUDGED]: SIGN 1: at least FLOOR, -1: at most; FLOOR -: not judged
line()
{
    awk -v label="$1" -v value="$2" -v unit="$3" -v least="$4" -v sign="$5" -v judged="${6:-$2}" -v ratio="${6:-}" 'BEGIN {
        shown = sprintf(value >= 100 ? "%.0f" : value >= 10 ? "%.2f" : "%.4f", value)
        printf "%-38s %10s %-9s %8s  floor %-8s %s\n", label, shown, unit, (ratio == "" ? "" : sprintf("%.2f", ratio)), least,
            (least == "-" ? "" : sign * judged >= sign * least ? "ok" : "MISSED") }'
}
# full FLOOR ROWS FULL: a floor, if so many rows are measured as it was meant for
full()
{
    if [ "$2" -ge "$3" ]; then echo "$1"; else echo -; fi
}

echo
echo "the program: $rows rows of libsvm text ($((bytes / 1000000)) MB), --batch 1, 1 thread; medians of $rounds rounds"
echo
printf '%-38s %10s %-9s %8s\n' "" "" "" ratio
for name in sgd adagrad; do
    rate=$(middle "$name.text")
    peer=$([ "$name" = sgd ] && echo 568000 || echo 379000)
    times=$(awk -v a="$rate" -v b="$peer" 'BEGIN { print a / b }')
    line "text, $name, to Vowpal Wabbit" "$rate" rows/s "$(full 3 "$rows" 1000000)" 1 "$times"
    line "cache, $name, to the bare loop" "$(middle "$name.cache")" rows/s 0.7 1 "$(ratio "$name.cache" "$name.bare")"
done
line "progressive log loss, sgd" "$(cat sgd.loss)" "" - -1
line "progressive log loss, adagrad" "$(cat adagrad.loss)" "" "$(full 0.453 "$rows" 1000000)" -1
line "parsing, of one core" "$(middle parse)" MB/s 1000 1
[ "$(id -u)" = 0 ] || { echo "the testbed needs root: no figure of the wire"; exit 0; }

wire=$((rows < 200000 ? rows : 200000))
keys=$("$build/bench/logreg" --rows "$wire" --keys | sed -nE 's/.* us, ([0-9]*) keys of .*/\1/p') # of a batch of 100, in file order
program=("$build/yoke" testbed run --hosts 5 --bandwidth 1.8gbit -- "$build/yoke")
for _ in $(seq 0 "$rounds"); do
    for mode in async sync; do
        train --data "synth-criteo:$wire" --shuffle-buffer 1 --batch 100 --mode "$mode" --hosts n1,n2,n3,n4 --ps-hosts n0 \
            --eval-every "$wire" --checkpoint-every "$wire"
        json seconds | head -n 1 >>"$mode.seconds"
        { json bytes_sent; json bytes_received; } | awk -v keys="$keys" -v batches="$((wire / 100))" '{ sum += $1 } END {
            print sum / (keys * batches) }' >>"$mode.bytes"
        json progressive_loss >"$mode.loss"
    done
done
echo
echo "testbed: $wire rows, 1 owner and 4 workers on 5 hosts at 1.8 Gbit/s, batch 100, adagrad, about $keys keys a batch"
echo
for mode in async sync; do
    line "$mode, training" "$(middle "$mode.seconds")" s "$(full "$([ "$mode" = async ] && echo 1.2 || echo 2.5)" "$wire" 200000)" -1
    line "$mode, both ways, a touched key" "$(middle "$mode.bytes")" bytes 12.5 -1
    line "$mode, progressive log loss" "$(cat "$mode.loss")" "" - -1
done
