#!/bin/bash
# workers.sh - how fast several workers train, as ratios to one process in the same run.
#
#   BUILD=build bench/workers.sh [ROUNDS]
#
# Softmax on MNIST, batch 60 a worker, --threads 1, no evaluation on the way. A round runs every contestant once, one after the other, so
# that what the machine does meanwhile hits all of them; a figure is the median of its ratios over the rounds. Updates per second are
# --json's steps_per_second: training time only. Sync over MPI is compared with a plain loop round MPI_Allreduce (allreduce.c) of as
# many ranks as there are workers.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(cd "${BUILD:-build}" && pwd) || exit 1
rounds=${1:-5}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-bench.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1
mkdir config
export XDG_CONFIG_HOME=$tmp/config LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# rate NAME STEPS OPTIONS...: one run, its updates per second into the file NAME
rate()
{
    local name=$1 steps=$2
    shift 2
    "$build/yoke" train softmax --batch 60 --threads 1 --steps "$steps" --eval-every "$steps" --checkpoint-every "$steps" \
        --run run --json --quiet "$@" >summary 2>log || { cat log >&2; exit 1; }
    sed -nE 's/^  "steps_per_second": *([0-9.]*),?$/\1/p' summary >>"$name"
    sed -nE 's/^  "startup_seconds": *([0-9.]*),?$/\1/p' summary >>"$name.startup"
    rm -rf run
}

plain()
{
    mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np 3 "$build/bench/allreduce" 60 20000 2>log |
        sed -nE 's/ updates.*//p' >>plain
}

for _ in $(seq 0 "$rounds"); do # round 0 warms up and is not counted
    rate one 60000
    rate async2 80000 --mode async --workers 2
    rate async3 80000 --mode async --workers 3
    rate async4 80000 --mode async --workers 4
    rate sync3 20000 --mode sync --workers 3
    rate reduce3 20000 --mode allreduce --workers 3
    rate mpi_async 40000 --mode async --hosts localhost:3
    rate mpi_sync 20000 --mode sync --hosts localhost:3
    rate mpi_reduce 20000 --mode allreduce --hosts localhost:3
    plain
done

# ratio A B: the median over the rounds of A's rate to B's
ratio()
{
    paste "$1" "$2" | tail -n +2 | awk '{ print $1 / $2 }' | sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
middle()
{
    tail -n +2 "$1" | sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
# line LABEL NAME BASE FLOOR
line()
{
    awk -v label="$1" -v rate="$(middle "$2")" -v ratio="$(ratio "$2" "$3")" -v base="$4" -v least="$5" 'BEGIN {
        printf "%-38s %9.0f %8.2f  of %-14s floor %-5s %s\n", label, rate, ratio, base, least, (ratio >= least ? "ok" : "MISSED") }'
}

echo "updates/s of several workers: softmax on mnist, batch 60 a worker, 1 thread each, $(nproc) cores; medians of $rounds rounds"
echo
printf '%-38s %9s %8s\n' "" updates/s ratio
printf '%-38s %9.0f %8s\n' "one process" "$(middle one)" 1
line "async, 2 workers, threads" async2 one "one process" 1.4
line "async, 3 workers, threads" async3 one "one process" 1.3
line "async, 4 workers, threads" async4 one "one process" 1.3
line "sync, 3 workers, threads" sync3 one "one process" 0.22
line "allreduce, 3 workers, threads" reduce3 one "one process" 0.22
line "async, 3 workers, MPI" mpi_async one "one process" 0.35
printf '%-38s %9.0f\n' "plain loop, MPI_Allreduce, 3 ranks" "$(middle plain)"
line "sync, 3 workers, MPI" mpi_sync plain "the plain loop" 1.0
line "allreduce, 3 workers, MPI" mpi_reduce plain "the plain loop" 1.0
awk -v s="$(middle mpi_sync.startup)" 'BEGIN {
    printf "%-38s %9.2f s%24s floor 0.8 s %s\n", "launch to first step, MPI, inside", s, "", (s <= 0.8 ? "ok" : "MISSED") }'
[ "$(id -u)" = 0 ] || { echo "the testbed needs root: no figure of the wire"; exit 0; }

# A model of 64 MB reduced and sent back among three hosts; each link carries 2 (n - 1) / n of it each way.
for _ in $(seq 0 "$rounds"); do
    "$build/yoke" testbed run --hosts 3 --bandwidth 1.8gbit -- "$build/yoke" netcheck --hosts n0,n1,n2 --json >wire.json 2>log ||
        { cat log >&2; exit 1; }
    /usr/bin/python3 -c 'import json; big = json.load(open("wire.json"))["all_to_all"]["large"]; print(big["round_us"] / 1e6, big["bytes"])' >>wire
done
awk -v s="$(middle wire)" -v bytes="$(awk 'NR == 1 { print $2 }' wire)" 'BEGIN {
    ratio = 2 * 2 / 3 * bytes / (1.8e9 / 8) / s
    printf "%-38s %9.2f s %6.2f  of %-14s floor %-5s %s\n", "all-reduce of 64 MB, 3 hosts", s, ratio, "1.8 Gbit/s", 0.9, (ratio >= 0.9 ? "ok" : "MISSED") }'
