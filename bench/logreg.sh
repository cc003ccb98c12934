#!/bin/bash
# logreg.sh - sparse logistic regression: the sweep against a bare loop, then the whole program on
# text, from its cache and on a testbed.
#
#   BUILD=build bench/logreg.sh [ROUNDS]               5 rounds unless said otherwise
#   ROWS=20000 FEATURES=10000 in the environment    fewer than 1,000,000 and 33,762,578
#
# The data is synth-criteo, 39 entries a row. `bench/logreg` measures the sweep alone (see its
# source). The program trains on libsvm text in file order by batches of one row, with `--threads 1`
# and pinned to one core: `text` from an empty cache, seconds from its start to the end of training,
# so reading, writing the cache and training are all in; `cache` the same command again, training
# only, as a ratio to the bare loop of the same round. Parsing is user time of one thread, less that
# of the same command from the cache. On the testbed (root) there are five hosts at 1.8 Gbit/s, one
# of them the owner's, and 200,000 rows by batches of 100 a worker; seconds are training only. A key
# counts once for every batch that touches it. Floors that depend on the number of rows are judged
# at the full number only. Exit status 0 unless something is broken.
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} rows=${ROWS:-1000000} features=${FEATURES:-33762578}
number ROUNDS "$rounds" 1 99
number ROWS "$rows" 1000 99999999
number FEATURES "$features" 1000 99999999
cd "$tmp" || exit 1
export XDG_CACHE_HOME=$tmp/cache
TIMEFORMAT=%U
core=$(taskset -cp $$ | sed -E 's/.*: ([0-9]+).*/\1/') # the first that we may use
program=("$yoke")

# full FLOOR ROWS FULL: a floor, if so many rows are measured as it was meant for
full()
{
    if [ "$2" -ge "$3" ]; then echo "$1"; else echo -; fi
}

# train OPTIONS...: one run of ${program[@]}, its summary into the file summary
train()
{
    rm -rf run
    must "${program[@]}" train logreg "$@" --isa "$isa" --run run --json --quiet >summary
}

# text NAME RATE: one pass over the text and one from the cache
text()
{
    local pass=(--data train.libsvm --shuffle-buffer 1 --batch 1 --threads 1 --optimizer "$1" \
        --lr "$2" --eval-every "$rows"
        --checkpoint-every "$rows")
    rm -rf cache
    sync
    train "${pass[@]}"
    calc "$rows / ($(json startup_seconds) + $(json seconds | head -n 1))" >>"$1.text"
    json progressive_loss >"$1.loss"
    train "${pass[@]}"
    json examples_per_second >>"$1.cache"
    "${pin[@]}" "${sweep[@]}" --rounds 1 --threads 1 --optimizer "$1" |
        awk -F'|' '$3 == " bare loop " { print $4 }' >>"$1.bare"
}

# parse: MB of text a second of one core
parse()
{
    local first again info=("$yoke" data info train.libsvm --threads 1)
    first=$({ time XDG_CACHE_HOME=/dev/null/none "${info[@]}" >/dev/null 2>log; } 2>&1)
    again=$({ time "${info[@]}" >/dev/null 2>log; } 2>&1)
    echo "$bytes $first $again" | awk '{ print $1 / 1e6 / ($2 - $3 > 0.001 ? $2 - $3 : 0.001) }' \
        >>parse
}

sweep=("$build/bench/logreg" --rows "$rows" --features "$features" --isa "$isa")
"${sweep[@]}" --rounds "$rounds" | tables || exit
"$yoke" data synth criteo --rows "$rows" --features "$features" -o train.libsvm --quiet || exit
bytes=$(stat -c %s train.libsvm)
sync # else writing to the disk would compete with the measurement

pin=(taskset -c "$core")
program=("${pin[@]}" "$yoke")
for ((round = 0; round <= rounds; round++)); do
    text sgd 0.005
    text adagrad 0.1
    parse
    [ "$round" != 0 ] || rm -f ./*.text ./*.cache ./*.bare parse # it warmed up
done
{
    echo
    echo "The program: $rows rows of libsvm text ($((bytes / 1000000)) MB)," \
        "\`--batch 1 --threads 1\`, on one core; medians of $rounds rounds."
    head_ "" rate: unit ratio: to floor
    for name in sgd adagrad; do
        row "text, $name" "$(figure 0 "$name.text")" rows/s "" "" -
        part=$(ratio "$name.cache" "$name.bare")
        row "cache, $name" "$(figure 0 "$name.cache")" rows/s "$(digits 2 "$part")" "bare loop" \
            "$(judge "$part" 0.7)"
    done
    row "progressive log loss, sgd" "$(digits 4 "$(cat sgd.loss)")" "" "" "" -
    row "progressive log loss, adagrad" "$(digits 4 "$(cat adagrad.loss)")" "" "" "" \
        "$(judge "$(cat adagrad.loss)" "$(full 0.453 "$rows" 1000000)" most)"
    row "parsing" "$(figure 0 parse)" MB/s "" "" "$(judge "$(middle parse)" 1000)"
} | tables
[ "$(id -u)" = 0 ] || { printf '\nThe testbed needs root: no figure of the wire.\n'; exit 0; }

wire=$((rows < 200000 ? rows : 200000))
keys=$("${sweep[@]}" --rows "$wire" --keys | sed -nE 's/.* us, ([0-9]*) keys of .*/\1/p')
program=("$yoke" testbed run --hosts 5 --bandwidth 1.8gbit -- "$yoke")
for ((round = 0; round <= rounds; round++)); do
    for mode in async sync; do
        train --data "synth-criteo:$wire:$features" --shuffle-buffer 1 --batch 100 --mode "$mode" \
            --hosts n1,n2,n3,n4 --ps-hosts n0 --eval-every "$wire" --checkpoint-every "$wire"
        json seconds | head -n 1 >>"$mode.seconds"
        { json bytes_sent; json bytes_received; } |
            awk -v touched="$((keys * (wire / 100)))" '{ sum += $1 } END { print sum / touched }' \
                >>"$mode.bytes"
        json progressive_loss >"$mode.loss"
    done
    [ "$round" != 0 ] || rm -f ./*.seconds ./*.bytes
done
{
    echo
    echo "Testbed: $wire rows, 1 owner and 4 workers on 5 hosts at 1.8 Gbit/s, batch 100," \
        "adagrad, about $keys keys a batch."
    head_ mode seconds: floor "bytes a touched key:" floor "log loss:"
    for mode in async sync; do
        floor=$([ "$mode" = async ] && echo 1.2 || echo 2.5)
        row "$mode" "$(figure 2 "$mode.seconds")" \
            "$(judge "$(middle "$mode.seconds")" "$(full "$floor" "$wire" 200000)" most)" \
            "$(figure 2 "$mode.bytes")" \
            "$(judge "$(middle "$mode.bytes")" "$(full 12.5 "$features" 33762578)" most)" \
            "$(digits 4 "$(cat "$mode.loss")")"
    done
} | tables
