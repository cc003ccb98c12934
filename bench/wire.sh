#!/bin/bash
# wire.sh - AlexNet on testbeds of 2 and 3 hosts at 1.8 Gbit/s: how near a step comes to the longer of its computing and its bytes.
#
#   sudo BUILD=build bench/wire.sh [ROUNDS]            3 rounds unless said otherwise
#   BATCH=2 STEPS=2 HOSTS=2 in the environment         another batch a worker than 16, fewer steps than 10, one of the testbeds only
#
# sync: host n0 owns the parameters and the others are workers, one each. allreduce: every host is a worker. One thread a worker.
# A round runs every job twice, for 2 steps and for 10 more; a figure is the difference of the medians, for a step. So neither the
# first parameters, which are sent whole, nor the first step, in which oneDNN makes its kernels, nor the last, behind which nothing can
# hide, are in it.
#   compute   a step without a network: as many processes as there are workers train for themselves (--mode local, optimizer
#             included) on this machine's cores at the same time; the slowest counts
#   wire      what the busiest link must carry in one direction at 1.8 Gbit/s: parameters x bytes of a number x workers (sync) or
#             x 2 (n - 1) / n (allreduce). The directions can be used at the same time; headers are not counted
#   ratio     step / max(compute, wire); the floor is at most 1.15
#   MB        what went over that link for a step, by the counters of the interfaces; share: of the same job without --compress
# Needs root. Exit status 0 unless something is broken.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(cd "${BUILD:-build}" && pwd) || exit 1
rounds=${1:-3} batch=${BATCH:-16} steps=${STEPS:-10} beds=${HOSTS:-2 3}
if ! [[ $rounds =~ ^[1-9][0-9]?$ && $batch =~ ^[1-9][0-9]{0,2}$ && $steps =~ ^[1-9][0-9]{0,2}$ && $beds =~ ^[2-8](\ [2-8])*$ ]]; then
    echo "usage: [BATCH=1..999] [STEPS=1..999] [HOSTS='2 3'] bench/wire.sh [1..99]" >&2
    exit 2
fi
[ "$(id -u)" = 0 ] || { echo "the testbed needs root: no figure of AlexNet on the wire"; exit 0; }
tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-bench.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$tmp" || exit 1
mkdir config
export XDG_CONFIG_HOME=$tmp/config LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
lengths="2 $((steps + 2))"
job=(train alexnet --batch "$batch" --threads 1 --checkpoint-every 1000000 --json --quiet)

# json FILE KEY: the first number under KEY in a summary
json()
{
    sed -nE "s/^ *\"$2\": *([-0-9.e]*),?$/\1/p" "$1" | head -n 1
}

middle()
{
    sort -g "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# per_step NAME: a step's part of what the runs took or sent that are noted in NAME.2 and the like
per_step()
{
    echo "$(middle "$1.2") $(middle "$1.$((steps + 2))")" | awk -v n="$steps" '{ print ($2 - $1) / n }'
}

# workers_of HOSTS MODE: in sync the first host has the parameters only
workers_of()
{
    if [ "$2" = sync ]; then echo $(($1 - 1)); else echo "$1"; fi
}

# compute WORKERS: a step of the slowest of so many processes that know nothing of each other
compute()
{
    local i length pids
    for length in $lengths; do
        pids=()
        for ((i = 0; i < $1; i++)); do
            "$build/yoke" "${job[@]}" --steps "$length" --mode local --run "alone.$i" >"alone.$i.json" 2>"alone.$i.log" &
            pids+=($!)
        done
        for ((i = 0; i < $1; i++)); do
            wait "${pids[i]}" || { cat "alone.$i.log" >&2; exit 1; }
            json "alone.$i.json" seconds >>alone
        done
        sort -g alone | tail -n 1 >>"compute.$1.$length"
        rm -rf alone*
    done
}

# wired HOSTS MODE COMPRESS: a job on a testbed. What runs there ends by telling the bytes that every interface received and sent.
wired()
{
    local name=$1.$2.$3 list='' where=() length i
    for ((i = $1 - $(workers_of "$1" "$2"); i < $1; i++)); do
        list=${list:+$list,}n$i
    done
    [ "$2" != sync ] || where=(--ps 1 --ps-hosts n0)
    for length in $lengths; do
        # shellcheck disable=SC2016 # expanded in there
        "$build/yoke" testbed run --hosts "$1" --bandwidth 1.8gbit -- bash -c '
            hosts=$1
            shift
            "$@" >summary || exit
            for ((i = 0; i < hosts; i++)); do
                ip netns exec "n$i" cat /proc/net/dev
            done | awk "\$1 == \"eth0:\" { print \$2; print \$10 }" >links' wired "$1" \
            "$build/yoke" "${job[@]}" --steps "$length" --mode "$2" --hosts "$list" "${where[@]}" --compress "$3" --run run 2>log ||
            { cat log >&2; exit 1; }
        rm -rf run
        json summary seconds >>"$name.seconds.$length"
        sort -g links | tail -n 1 >>"$name.bytes.$length"
    done
    json summary parameters >count
}

for ((round = 0; round < rounds; round++)); do
    for hosts in $beds; do
        for mode in sync allreduce; do
            compute "$(workers_of "$hosts" "$mode")"
            for how in none bf16 int8; do
                wired "$hosts" "$mode" "$how"
            done
        done
    done
done

echo "AlexNet on a testbed at 1.8 Gbit/s, batch $batch and 1 thread a worker, $(nproc) cores for all"
echo "seconds a step, medians of $rounds rounds"
echo
printf '%-5s %-10s %-8s %8s %8s %8s %8s %-20s %9s %7s\n' hosts mode compress compute wire step ratio '' MB share
for hosts in $beds; do
    for mode in sync allreduce; do
        workers=$(workers_of "$hosts" "$mode")
        for how in none bf16 int8; do
            name=$hosts.$mode.$how
            awk -v hosts="$hosts" -v mode="$mode" -v how="$how" -v workers="$workers" -v parameters="$(cat count)" \
                -v compute="$(per_step "compute.$workers")" -v step="$(per_step "$name.seconds")" -v bytes="$(per_step "$name.bytes")" \
                -v plain="$(per_step "$hosts.$mode.none.bytes")" 'BEGIN {
                if (compute <= 0 || step <= 0) {
                    print "bench: more steps took less time; something else keeps this machine busy" >"/dev/stderr"
                    exit 1
                }
                size["none"] = 4; size["bf16"] = 2; size["int8"] = 1 + 4 / 1024 # a scale for every 1024 numbers
                most["none"] = 1; most["bf16"] = 0.52; most["int8"] = 0.27
                wire = parameters * size[how] * (mode == "sync" ? workers : 2 * (hosts - 1) / hosts) / (1.8e9 / 8)
                bound = compute > wire ? compute : wire
                printf "%-5s %-10s %-8s %8.3f %8.3f %8.3f %8.2f floor 1.15 %-9s %9.1f %7.3f  %s\n", hosts, mode, how, compute, wire, step,
                    step / bound, (step / bound <= 1.15 ? "ok" : "MISSED"), bytes / 1e6, bytes / plain,
                    (bytes / plain <= most[how] ? "ok" : "MISSED") }' || exit
        done
    done
done
