#!/bin/bash
# alexnet_table.sh - AlexNet on made-up images with 1, 2 and 4 workers, in the columns of a
# published table and beside it.
#
#   BUILD=build bench/alexnet_table.sh                      all of it, 5 steps a row
#   BATCHES='4 8' WORKERS='1 2' STEPS=2 in the environment  less of it
#   NET=lenet in the environment                            another net, for a quick look at this
#
# The published figures (reference/alexnet_fake.csv) are of TensorFlow 1.x on 1, 2 and 4 machines,
# one of which also holds the parameters; batches are per machine, memory and processor are those of
# a machine. Here the workers and the one owner of the parameters are processes of this machine that
# share its cores, over MPI (--mode sync --hosts localhost:N), so examples per second cannot grow
# with workers as they do on machines of their own. The columns:
#   memory     the largest process at its peak
#   cpu        the share of all cores of this machine in the busiest half second of the run, its
#              start and its end included
#   read       bytes that the owner received from all workers in a second of training, and `written`
#              those it sent to them. The published columns do not name their unit; their size is
#              that of peak bytes per second
#   examples/s and s/batch, of training; a batch is one of every worker
# There is no floor: two clusters are set side by side, not two programs on one. Exit status 0
# unless something is broken.
. "$(dirname "$0")/lib.sh"
published=$top/bench/reference/alexnet_fake.csv
batches=${BATCHES:-32 64 128 256} workers=${WORKERS:-1 2 4} steps=${STEPS:-5} net=${NET:-alexnet}
if [ $# != 0 ] || ! [[ "$batches $workers $steps" =~ ^[1-9][0-9]{0,3}(\ [1-9][0-9]{0,3})*$ ]]; then
    echo "usage: [BATCHES='32 64 128 256'] [WORKERS='1 2 4'] [STEPS=5] bench/alexnet_table.sh" >&2
    exit 2
fi
sampler=
trap '[ -z "$sampler" ] || kill "$sampler" 2>/dev/null; rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

# sample: a line of ticks every half second, until it is ended
sample()
{
    while :; do
        ticks
        sleep 0.5
    done
}

# published WORKERS BATCH: the figures of that row in the published table, or dashes
published()
{
    awk -F, -v workers="$1" -v batch="$2" '
        $1 == workers && $2 == batch { found = 1
            printf "%.0f %.0f %.3f %.3f %.1f %.2f\n", $3 / 1e6, $4, $5 / 1e6, $6 / 1e6, $7, $8 }
        END { if (!found) print "- - - - - -" }' "$published"
}

# measured: the same of the last run
measured()
{
    local seconds sent received busiest
    seconds=$(json seconds | head -n 1)
    sent=$(json bytes_sent | awk '{ sum += $1 } END { print sum + 0 }')
    received=$(json bytes_received | awk '{ sum += $1 } END { print sum + 0 }')
    busiest=$(awk 'NR > 1 && $2 > all { use = 100 * ($1 - busy) / ($2 - all) }
        use > most { most = use }
        { busy = $1; all = $2 } END { print most + 0 }' load)
    awk -v memory="$(json peak_rss_bytes)" -v busiest="$busiest" -v s="$seconds" \
        -v read="$sent" -v written="$received" \
        -v examples="$(json examples_per_second)" -v steps="$(json steps_per_second)" 'BEGIN {
        printf "%.0f %.0f %.3f %.3f %.1f %.2f\n", memory / 1e6, busiest, read / 1e6 / s,
            written / 1e6 / s, examples, 1 / steps }'
}

for count in $workers; do
    for batch in $batches; do
        where=(--mode local --threads "$(nproc)")
        [ "$count" = 1 ] || where=(--mode sync --ps 1 --hosts "localhost:$count")
        rm -rf run
        sample >load &
        sampler=$!
        must "$yoke" train "$net" --batch "$batch" "${where[@]}" --steps "$steps" \
            --checkpoint-every "$steps" --isa "$isa" --run run --json --quiet >summary
        kill "$sampler" && wait "$sampler" 2>/dev/null
        sampler=
        read -ra ours <<<"$(measured)"
        read -ra theirs <<<"$(published "$count" "$batch")"
        {
            printf '%s\n%s\n' "$count" "$batch"
            for i in 0 1 2 3 4 5; do
                echo "${ours[i]} / ${theirs[i]}"
            done
        } >>cells
    done
done
{
    echo "$net, $(nproc) cores for all workers together, $steps steps a row; yoke / published."
    head_ workers: batch: "peak MB:" "peak cpu %:" "read MB/s:" "written MB/s:" examples/s: s/batch:
    mapfile -t cells <cells
    for ((i = 0; i < ${#cells[@]}; i += 8)); do
        row "${cells[@]:i:8}"
    done
} | tables
