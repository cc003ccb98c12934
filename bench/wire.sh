#!/bin/bash
# wire.sh - AlexNet on testbeds of 2 and 3 hosts at 1.8 Gbit/s: how near a step comes to the longer
# of its computing and its bytes.
#
#   sudo BUILD=build bench/wire.sh [ROUNDS]            3 rounds unless said otherwise
#   BATCH=2 STEPS=2 HOSTS=2 in the environment         a batch of 2 a worker, not 16; 2 steps, not
#                                                      10; one testbed only
#   MODES=sync NET=lenet in the environment            one mode; another net, without floor
#
# sync: host n0 owns the parameters and the others are workers, one each. allreduce: every host is a
# worker. Each worker has one thread. A round runs every job twice, for 2 steps and for 10 more; a
# figure is the difference of the medians, divided by the steps. So it contains neither the start,
# when whole parameters are sent and oneDNN makes its kernels, nor the last step, whose messages no
# computing can hide.
#   compute   a step without a network: as many processes as there are workers train for themselves
#             (--mode local, optimizer included) on this machine's cores at the same time; the
#             slowest counts
#   wire      the bytes that the busiest link must carry in one direction, at 1.8 Gbit/s:
#             parameters x bytes of a number x workers (sync) or x 2 (n - 1) / n (allreduce). The
#             directions can be used at the same time; headers are not counted
#   ratio     step / max(compute, wire); the floor is at most 1.15
#   MB        the bytes of a step on that link, by the counters of the interfaces; share: their part
#             of the bytes of the same job without --compress
# Needs root. Exit status 0 unless something is broken.
. "$(dirname "$0")/lib.sh"
rounds=${1:-3} batch=${BATCH:-16} steps=${STEPS:-10}
beds=${HOSTS:-2 3} net=${NET:-alexnet} modes=${MODES:-sync allreduce}
number ROUNDS "$rounds" 1 99
number BATCH "$batch" 1 999
number STEPS "$steps" 1 9999
if ! [[ $beds =~ ^[2-8](\ [2-8])*$ && $net =~ ^[a-z]+$ && $modes =~ ^[a-z\ ]+$ ]]; then
    echo "usage: [HOSTS='2 3'] [MODES='sync allreduce'] [NET=alexnet] bench/wire.sh [1..99]" >&2
    exit 2
fi
[ "$(id -u)" = 0 ] || { echo "The testbed needs root: no figure of AlexNet on the wire."; exit 0; }
cd "$tmp" || exit 1
lengths="2 $((steps + 2))"
job=(train "$net" --batch "$batch" --threads 1 --checkpoint-every 1000000 --eval-every 1000000
    --isa "$isa" --json --quiet)

# per_step NAME: the seconds or bytes of one step, from the runs that NAME.2 and the like note
per_step()
{
    echo "$(middle "$1.2") $(middle "$1.$((steps + 2))")" | awk -v n="$steps" \
        '{ print ($2 - $1) / n }'
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
            "$yoke" "${job[@]}" --steps "$length" --mode local --run "alone.$i" \
                >"alone.$i.json" 2>"alone.$i.log" &
            pids+=($!)
        done
        for ((i = 0; i < $1; i++)); do
            wait "${pids[i]}" || { cat "alone.$i.log" >&2; exit 1; }
            json seconds "alone.$i.json" | head -n 1 >>alone
        done
        sort -g alone | tail -n 1 >>"compute.$1.$length"
        rm -rf alone*
    done
}

# wired HOSTS MODE COMPRESS: a job on a testbed. What runs there ends by telling the bytes that
# every interface received and sent.
wired()
{
    local name=$1.$2.$3 list='' where=() length i
    for ((i = $1 - $(workers_of "$1" "$2"); i < $1; i++)); do
        list=${list:+$list,}n$i
    done
    [ "$2" != sync ] || where=(--ps 1 --ps-hosts n0)
    for length in $lengths; do
        # shellcheck disable=SC2016 # expanded in there
        must "$yoke" testbed run --hosts "$1" --bandwidth 1.8gbit -- bash -c '
            hosts=$1
            shift
            "$@" >summary || exit
            for ((i = 0; i < hosts; i++)); do
                ip netns exec "n$i" cat /proc/net/dev
            done | awk "\$1 == \"eth0:\" { print \$2; print \$10 }" >links' wired "$1" \
            "$yoke" "${job[@]}" --steps "$length" --mode "$2" --hosts "$list" "${where[@]}" \
            --compress "$3" --run run
        rm -rf run
        json seconds | head -n 1 >>"$name.seconds.$length"
        sort -g links | tail -n 1 >>"$name.bytes.$length"
    done
    json parameters | head -n 1 >count
}

for ((round = 0; round < rounds; round++)); do
    for hosts in $beds; do
        for mode in $modes; do
            compute "$(workers_of "$hosts" "$mode")"
            for how in none bf16 int8; do
                wired "$hosts" "$mode" "$how"
            done
        done
    done
done

# line HOSTS MODE COMPRESS: a row of the table
line()
{
    local workers name=$1.$2.$3 least=1.15 figures
    workers=$(workers_of "$1" "$2")
    [ "$net" = alexnet ] || least=-
    figures=$(awk -v hosts="$1" -v mode="$2" -v how="$3" -v workers="$workers" \
        -v parameters="$(cat count)" -v compute="$(per_step "compute.$workers")" \
        -v step="$(per_step "$name.seconds")" -v bytes="$(per_step "$name.bytes")" \
        -v plain="$(per_step "$1.$2.none.bytes")" 'BEGIN {
            size["none"] = 4; size["bf16"] = 2; size["int8"] = 1 + 4 / 1024 # and a scale
            most["none"] = "-"; most["bf16"] = 0.52; most["int8"] = 0.27
            times = mode == "sync" ? workers : 2 * (hosts - 1) / hosts
            wire = parameters * size[how] * times / (1.8e9 / 8)
            bound = compute > wire ? compute : wire
            if (compute > 0 && step > 0)
                printf "%.3f %.3f %.3f %.2f %.1f %.3f %s\n", compute, wire, step, step / bound,
                    bytes / 1e6, bytes / plain, most[how] }')
    if [ -z "$figures" ]; then
        echo "bench: more steps took less time; something else keeps this machine busy" >&2
        exit 1
    fi
    read -ra f <<<"$figures"
    row "$1" "$2" "$3" "${f[@]:0:4}" "$(judge "${f[3]}" "$least" most)" "${f[@]:4:2}" \
        "$(judge "${f[5]}" "${f[6]}" most)"
}
{
    echo "$net on a testbed at 1.8 Gbit/s, batch $batch and 1 thread a worker; seconds a step," \
        "medians of $rounds rounds."
    head_ hosts: mode compress compute: wire: step: ratio: floor "MB a step:" share: floor
    for hosts in $beds; do
        for mode in $modes; do
            for how in none bf16 int8; do
                line "$hosts" "$mode" "$how" || exit
            done
        done
    done
} | tables
