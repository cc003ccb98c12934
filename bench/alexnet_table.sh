#!/bin/bash
# alexnet_table.sh - AlexNet on made-up images with 1, 2 and 4 workers, in the columns of a published table and beside it.
#
#   BUILD=build bench/alexnet_table.sh                      all of it, 5 steps a row
#   BATCHES='4 8' WORKERS='1 2' STEPS=2 in the environment  less of it
#
# The published figures (reference/alexnet_fake.csv) are of TensorFlow 1.x on 1, 2 and 4 machines, one of which also holds the
# parameters; batches are per machine, memory and processor are those of a machine. Here the workers and the one owner of the parameters are
# processes of this machine that share its cores, over MPI (--mode sync --hosts localhost:N), so examples per second cannot grow with
# workers as they do on machines of their own. The columns:
#   memory     the largest process at its peak
#   cpu        of all cores of this machine, the busiest half second while the run lasts, its start and its end included
#   read       what the owner received from all workers, and `written` what it sent to them: bytes for a second of training. The published
#              columns do not name their unit; their size is that of peak bytes per second
#   examples/s and s/batch, of training; a batch is one of every worker
# There is no floor: two clusters are set side by side, not two programs on one. Exit status 0 unless something is broken.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(cd "${BUILD:-build}" && pwd) || exit 1
published=$PWD/bench/reference/alexnet_fake.csv
batches=${BATCHES:-32 64 128 256} workers=${WORKERS:-1 2 4} steps=${STEPS:-5}
if [ $# != 0 ] || ! [[ "$batches $workers $steps" =~ ^[1-9][0-9]{0,3}(\ [1-9][0-9]{0,3})*$ ]]; then
    echo "usage: [BATCHES='32 64 128 256'] [WORKERS='1 2 4'] [STEPS=5] bench/alexnet_table.sh" >&2
    exit 2
fi
# shellcheck source-path=SCRIPTDIR
. bench/machine.sh # ticks
tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-bench.XXXXXX") || exit 1
sampler=
trap '[ -z "$sampler" ] || kill "$sampler" 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1
mkdir config
export XDG_CONFIG_HOME=$tmp/config LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# sample: a line of ticks every half second, until it is ended
sample()
{
    while :; do
        ticks
        sleep 0.5
    done
}

# json KEY: numbers under KEY in the last run's summary, one a line
json()
{
    sed -nE "s/^ *\"$1\": *([-0-9.e]*),?$/\1/p" summary
}

# of_published WORKERS BATCH: the row's figures, or dashes
of_published()
{
    awk -F, -v workers="$1" -v batch="$2" '
        $1 == workers && $2 == batch { found = 1
            printf "%8.0f %5.0f %9.3f %9.3f %10.1f %8.2f", $3 / 1e6, $4, $5 / 1e6, $6 / 1e6, $7, $8 }
        END { if (!found) printf "%8s %5s %9s %9s %10s %8s", "-", "-", "-", "-", "-", "-" }' "$published"
}

head='memory   cpu      read   written examples/s  s/batch'
echo "AlexNet on made-up images, $(nproc) cores for all workers together, $steps steps a row"
echo "memory in MB, cpu in % of all cores, read and written in MB/s"
echo
printf '%-13s | %-54s | %s\n' '' 'yoke, processes of this machine' 'published: TensorFlow, a machine a worker'
printf '%7s %5s | %54s | %54s\n' workers batch "$head" "$head"
for count in $workers; do
    for batch in $batches; do
        where=(--mode local --threads "$(nproc)")
        [ "$count" = 1 ] || where=(--mode sync --ps 1 --hosts "localhost:$count")
        rm -rf run
        sample >load &
        sampler=$!
        "$build/yoke" train alexnet --batch "$batch" "${where[@]}" --steps "$steps" --checkpoint-every "$steps" --run run --json --quiet \
            >summary 2>log || { cat log >&2; exit 1; }
        kill "$sampler" && wait "$sampler" 2>/dev/null
        sampler=
        ours=$({ json seconds | head -n 1; json steps_per_second; json examples_per_second; json peak_rss_bytes
            json bytes_sent | awk '{ sum += $1 } END { print sum }'
            json bytes_received | awk '{ sum += $1 } END { print sum }'
            awk 'NR > 1 && $2 > all { use = 100 * ($1 - busy) / ($2 - all); most = use > most ? use : most }
                { busy = $1; all = $2 } END { print most + 0 }' load; } | awk '{ v[NR] = $1 } END {
            printf "%8.0f %5.0f %9.3f %9.3f %10.1f %8.2f", v[4] / 1e6, v[7], v[5] / 1e6 / v[1], v[6] / 1e6 / v[1], v[3], 1 / v[2] }')
        printf '%7s %5s | %54s | %s\n' "$count" "$batch" "$ours" "$(of_published "$count" "$batch")"
    done
done
