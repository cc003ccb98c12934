#!/bin/bash
# replace.sh - two ranks die at about the same time and are replaced, one after the other, RUNS
# times: the case of tests/mpi/comm.sh that once hung one time in eight. The new processes came to
# mpirun when it still tidied up after the dead, and its PMIx server did not look at them
# (mpirun_command.c).
#
# SEED=N repeats the moments at which the second one dies, RUNS=N makes it another number.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_command mpirun
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 EVENT_NOEPOLL=1
unset "${!OMPI_MCA_@}" OMPI_COMM_WORLD_SIZE
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$seed
RUNS=${RUNS:-50}
echo "SEED=$seed RUNS=$RUNS"

tool mpi/faults
ln -s "$BUILD/tests/mpi/faults" .
mkdir session shm

for ((i = 1; i <= RUNS; i++)); do
    export STAGGER=$((RANDOM % 60))
    case_ "run $i of $RUNS, the second dies $STAGGER ms after the first: both are replaced"
    run timeout -k 2 60 mpirun --bind-to none --mca orte_enable_recovery 1 \
        --mca orte_tmpdir_base "$PWD/session" --mca btl_vader_backing_directory "$PWD/shm" \
        -H localhost:5 -n 5 ./faults replace-two
    said=$(grep -c '^ok replace-two ' "$OUT")
    [ "$said" = 5 ] || fail "$said of 5 ranks said 'ok replace-two'"
    ! grep -q '^rank [0-9]*:' "$ERR" || fail "$(grep -m 1 '^rank [0-9]*:' "$ERR")"
done

case_ "nothing is left behind"
expect test -z "$(ls shm)"
expect test -z "$(find session -type f)"
