#!/bin/bash
# workers.sh - how fast several workers train, as ratios to one process in the same run, and how
# fast ranks exchange messages.
#
#   BUILD=build bench/workers.sh [ROUNDS]      9 rounds unless said otherwise
#   STEPS=2000 in the environment              in a turn, instead of 20000
#
# Softmax on MNIST, batch 60 a worker, --threads 1, no evaluation on the way. A round runs every
# contestant once, one after the other, so that a disturbance hits all of them. A ratio is the
# median of the ratios of the rounds. If the ratio of the medians lies on the other side of the
# floor, the row says so. Updates per second are --json's
# steps_per_second: training time only. Sync over MPI is compared with a plain loop round
# MPI_Allreduce (allreduce.c) of as many ranks as there are workers. A round trip is 31 KB to the
# owner and its answer, by three ranks at once (tests/mpi/comm.c). The testbed needs root.
. "$(dirname "$0")/lib.sh"
rounds=${1:-9} steps=${STEPS:-20000}
number ROUNDS "$rounds" 1 99
number STEPS "$steps" 10 1000000
cd "$tmp" || exit 1

# rate NAME STEPS OPTIONS...: one run, its updates per second into the file NAME
rate()
{
    local name=$1 steps=$2
    shift 2
    must "$yoke" train softmax --batch 60 --threads 1 --steps "$steps" --eval-every "$steps" \
        --checkpoint-every "$steps" --isa "$isa" --run run --json --quiet "$@" >summary
    json steps_per_second >>"$name"
    json startup_seconds >>"$name.startup"
    rm -rf run
}

# ranks N PROGRAM...: its output, by mpirun
ranks()
{
    local n=$1
    shift
    must mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np "$n" "$@"
}

for ((round = 0; round <= rounds; round++)); do
    rate one $((steps * 3))
    rate async2 $((steps * 4)) --mode async --workers 2
    rate async3 $((steps * 4)) --mode async --workers 3
    rate async4 $((steps * 4)) --mode async --workers 4
    rate sync3 "$steps" --mode sync --workers 3
    rate reduce3 "$steps" --mode allreduce --workers 3
    rate mpi_async $((steps * 2)) --mode async --hosts localhost:3
    rate mpi_sync "$steps" --mode sync --hosts localhost:3
    rate mpi_reduce "$steps" --mode allreduce --hosts localhost:3
    ranks 3 "$build/bench/allreduce" 60 "$steps" "$isa" | sed -nE 's/ updates.*//p' >>plain || exit
    ranks 4 "$build/tests/mpi/comm" rate | sed -nE 's/^rate ([0-9]+) .*/\1/p' >>trips || exit
    if [ "$(id -u)" = 0 ] && [ "$round" -gt 0 ]; then # 64 MB, reduced and sent back
        must "$yoke" testbed run --hosts 3 --bandwidth 1.8gbit -- \
            "$yoke" netcheck --hosts n0,n1,n2 --json >wire.json
        /usr/bin/python3 -c 'import json
big = json.load(open("wire.json"))["all_to_all"]["large"]
print(big["round_us"] / 1e6, big["bytes"])' >>wire
    fi
    if [ "$round" = 0 ]; then # it warmed up
        rm -f one* async* sync3* reduce3* mpi_* plain* trips
    fi
done

# line LABEL NAME BASE WHAT THAT IS FLOOR
line()
{
    local ratio plain verdict
    ratio=$(ratio "$2" "$3")
    plain=$(calc "$(middle "$2") / $(middle "$3")")
    verdict=$(judge "$ratio" "$5")
    [ "$verdict" = "$(judge "$plain" "$5")" ] ||
        verdict+=" (not by the medians: $(digits 2 "$plain"))"
    row "$1" "$(figure 0 "$2")" "$(digits 2 "$ratio")" "$4" "$verdict"
}
{
    echo "Softmax on MNIST, batch 60 a worker, 1 thread each; medians of $rounds rounds."
    head_ workers updates/s: ratio: to floor
    row "one process" "$(figure 0 one)" "" "" ""
    line "async, 2, threads" async2 one "one process" 1.4
    line "async, 3, threads" async3 one "one process" 1.3
    line "async, 4, threads" async4 one "one process" 1.3
    line "sync, 3, threads" sync3 one "one process" 0.22
    line "allreduce, 3, threads" reduce3 one "one process" 0.22
    line "async, 3, MPI" mpi_async one "one process" 0.35
    row "plain loop, 3 ranks" "$(figure 0 plain)" "" "" ""
    line "sync, 3, MPI" mpi_sync plain "plain loop" 1.0
    line "allreduce, 3, MPI" mpi_reduce plain "plain loop" 1.0
    head_ "" "" ratio: to floor
    row "launch to first step, MPI, inside" "$(figure 2 mpi_sync.startup) s" "" "" \
        "$(judge "$(middle mpi_sync.startup)" 0.8 most)"
    row "round trips of 31 KB, 3 ranks to one" "$(figure 0 trips) /s" "" "" \
        "$(judge "$(middle trips)" 2000)"
    if [ -e wire ]; then # each link carries 2 (n - 1) / n of the bytes each way
        bytes=$(awk 'NR == 1 { print $2 }' wire)
        part=$(calc "2 * 2 / 3 * $bytes / (1.8e9 / 8) / $(middle wire)")
        row "all-reduce of 64 MB, 3 hosts of a testbed" "$(figure 2 wire) s" "$(digits 2 "$part")" \
            "1.8 Gbit/s" "$(judge "$part" 0.9)"
    else
        row "all-reduce of 64 MB, 3 hosts of a testbed" "needs root" "" "" ""
    fi
} | tables
