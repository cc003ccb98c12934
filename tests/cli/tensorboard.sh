#!/bin/bash
# tensorboard.sh - the event files of real runs, read by a reader that shares nothing with the code
# that wrote them.
# san-1: all of it
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_mnist
tool events_reader

events_of() # RUN: its event files, oldest first
{
    ls "$1"/events/worker-0/events.out.tfevents.*
}

read_events() # FILE: into $OUT
{
    expect_exit 0 events_reader "$1"
}

tagged() # TAG: "step value" of its scalars
{
    sed -nE "s|^scalar ([0-9]+) $1 (.*)|\1 \2|p" "$OUT"
}

case_ "the reader itself notices a flipped bit, a cut file and a missing version"
expect_exit 0 yoke train softmax --steps 250 --run run --quiet
file=$(events_of run)
expect_same "$(wc -l <<<"$file")" 1
head -c -1 "$file" >shorter
expect_exit 1 events_reader shorter
{ head -c 300 "$file" && printf '\xff' && tail -c +302 "$file"; } >flipped
expect_exit 1 events_reader flipped
tail -c +49 "$file" >headless
expect_exit 1 events_reader headless

case_ "the version comes first, and the file is named as TensorBoard looks for it"
read_events "$file"
expect_same "$(head -n 1 "$OUT")" "version brain.Event:2"
expect grep -qE '/events\.out\.tfevents\.[0-9]{10}\.[^/]+\.[0-9]+\.[0-9]+$' <<<"$file"

case_ "every tag is there at every check"
for tag in train/loss test/loss test/accuracy lr steps_per_second; do
    expect_same "$(tagged $tag | cut -d' ' -f1 | tr '\n' ' ')" "100 200 250 "
done
expect_same "$(tagged lr | cut -d' ' -f2 | sort -u)" 0.01

case_ "what they say is what metrics.jsonl says"
for tag in train/loss test/loss test/accuracy; do
    expect_same "$(tagged $tag | awk '{ printf "%d %.5f\n", $1, $2 }')" \
        "$(sed -nE "s|^.\"step\":([0-9]+),.*\"$tag\":([0-9.e+-]+)[,}].*|\1 \2|p" run/metrics.jsonl |
        awk '{ printf "%d %.5f\n", $1, $2 }')"
done

case_ "histograms of every parameter, with every value counted"
for what in "softmax.weight 7840" "softmax.bias 10"; do
    for step in 100 200 250; do
        expect_out "^histogram $step ${what% *} [0-9]+ ${what#* }$"
    done
done

case_ "the graph: every input of a node is a node, and the loss is at its end"
expect test "$(grep -c '^node ' "$OUT")" -ge 5
names=" $(sed -nE 's/^node ([^ ]+) .*/\1/p' "$OUT" | tr '\n' ' ')"
inputs=$(sed -nE 's/^node [^ ]+ [^ ]+ ?(.*)/\1/p' "$OUT")
for input in $inputs; do
    [[ $names = *" $input "* ]] || fail "'$input' is no node"
done
expect_out '^node [^ ]+ MatMul '
expect_out '^node loss '

case_ "a resumed run writes a file of its own, in the same folder, and no step twice in it"
expect_exit 0 yoke train --resume run --steps 500 --quiet
expect_same "$(events_of run | wc -l)" 2
[ "$(events_of run | sort | head -n 1)" = "$file" ] ||
    fail "the newer file's name sorts before the older's"
read_events "$(events_of run | grep -vxF "$file")"
expect_same "$(tagged test/loss | cut -d' ' -f1 | tr '\n' ' ')" "300 400 500 "

case_ "... which begins by saying that what an earlier start wrote from there on is void"
expect_same "$(sed -n 2p "$OUT") $(grep -c '^session ' "$OUT")" "session 251 1"
read_events "$file"
expect_same "$(grep -c '^session ' "$OUT")" 0

case_ "the file of a killed run is whole up to its last record"
yoke train softmax --steps 100000000 --shards 2 --checkpoint-every 500 --run torn >/dev/null 2>&1 &
pid=$!
wait_until grep -qs '"step":2000,' torn/metrics.jsonl
kill -9 $pid
ended 137
read_events "$(events_of torn)"
expect test "$(tagged test/loss | wc -l)" -ge 20

case_ "resumed, the steps after its checkpoint are void in the curves of every worker"
cp -r torn crew
for run in torn crew; do
    step=$(checkpoints_of $run | tail -n 1 | tr -dc 0-9 | sed 's/^0*//')
    crew=()
    [ $run = torn ] || crew=(--mode sync --workers 2)
    expect_exit 0 yoke train --resume $run --steps $((step + 50)) --quiet "${crew[@]}"
done
for folder in torn/events/worker-0 crew/events/ps-0 crew/events/worker-0 crew/events/worker-1; do
    file=$(find $folder -name 'events.out.tfevents.*' | sort | tail -n 1)
    read_events "$file"
    expect_same "$folder $(sed -n 2p "$OUT")" "$folder session $((step + 1))"
done
