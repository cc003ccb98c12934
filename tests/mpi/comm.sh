#!/bin/bash
# comm.sh - the MPI engine between real processes: ranks that talk (comm.c), ranks that die, sleep
# and are replaced (faults.c), notes that are not sound (notes.c), and launchers that are not ours.
# The programs are linked with libyoke.a here. A case passes if every rank that should be left says
# so. Session folders and shared memory go into the script's own folder, so that files that are left
# behind can be seen.
# alone: it measures how fast messages are, and how little an idle rank takes
# san-1: all but the cases that measure
# san-thread: all but the cases that measure
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_command mpirun
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset "${!OMPI_MCA_@}" OMPI_COMM_WORLD_SIZE

tool mpi/comm mpi/faults mpi/notes
ln -s "$BUILD"/tests/mpi/{comm,faults,notes} .
mkdir session shm

# ranks N [OPTION...] -- PROGRAM CASE...: N processes. The way in which mpirun reports a killed rank
# does not matter.
ranks()
{
    local n=$1
    shift
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    # EVENT_NOEPOLL as yoke's parent sets it: see mpirun_command.c
    run timeout -k 2 60 env EVENT_NOEPOLL=1 mpirun --bind-to none --mca orte_enable_recovery 1 \
        --mca orte_tmpdir_base "$PWD/session" \
        --mca btl_vader_backing_directory "$PWD/shm" -H "localhost:$n" "${options[@]}" -n "$n" "$@"
    local status=$?
    [ "$status" != 124 ] || fail "'$*' with $n ranks did not end"
    return "$status"
}

# all N CASE: N ranks must have said ok, and none may have complained
all()
{
    local said
    said=$(grep -c "^ok $2 " "$OUT")
    [ "$said" = "$1" ] || fail "$said of $1 ranks said 'ok $2'"
    ! grep -q '^rank [0-9]*:' "$ERR" || fail "$(grep -m 1 '^rank [0-9]*:' "$ERR")"
    [ -z "$(ls shm)" ] || fail "left in shared memory: $(ls shm)"
    [ -z "$(find session -type f)" ] || fail "left in the session folder: $(find session -type f |
        head -n 3)"
}

tcp=(--mca btl 'tcp,self' --mca btl_tcp_if_include lo)

case_ "an owner and a worker exchange all sizes, in order"
ranks 2 -- ./comm exchange || fail "status $?"
all 2 exchange

case_ "two owners, three workers"
ranks 5 -- ./comm exchange 2 3 || fail "status $?"
all 5 exchange

case_ "owners and workers in the same processes"
ranks 3 -- ./comm exchange 3 3 || fail "status $?"
all 3 exchange

case_ "the same over TCP"
ranks 4 "${tcp[@]}" -- ./comm exchange 2 2 || fail "status $?"
all 4 exchange

case_ "messages wait for their handler, and for nobody else's lock"
ranks 3 -- ./comm late || fail "status $?"
all 3 late

if [ -z "$SANITIZED" ]; then
    case_ "64 MB each, while the receiver computes"
    ranks 3 "${tcp[@]}" -- ./comm bulk || fail "status $?"
    all 3 bulk
    expect_out '^bulk [0-9.]+ GB/s'
fi

case_ "64 MB in slices to all and back"
ranks 3 -- ./comm slices 3 3 || fail "status $?"
all 3 slices

if [ -z "$SANITIZED" ]; then
    case_ "31 KB there and back, again and again"
    ranks 4 -- ./comm rate || fail "status $?"
    all 4 rate
    expect_out '^rate [1-9][0-9]* round trips a second' # how many is measured by bench/workers.sh

    case_ "an idle rank takes less than 10 % of a core"
    ranks 3 -- ./comm idle || fail "status $?"
    all 3 idle
fi

case_ "notes of a wrong length, or not of their sender, are thrown away"
ranks 3 -- ./notes unsound || fail "status $?"
all 3 unsound
ranks 3 "${tcp[@]}" -- ./notes unsound || fail "status $?"
all 3 unsound

case_ "agreeing shows everybody what the others said"
ranks 4 -- ./comm agree || fail "status $?"
all 4 agree

case_ "a killed worker is noticed at once, and the others go on"
ranks 4 -- ./faults die-worker
all 3 die-worker

case_ "a killed rank 0 is noticed by all"
ranks 4 -- ./faults die-owner
all 3 die-owner

case_ "who slept does not take others for dead"
ranks 3 -- ./faults sleepers 1 2 1 || fail "status $?"
all 3 sleepers

case_ "a stopped rank is lost after its heartbeat, and harmless when it wakes"
ranks 4 -- ./faults stop 1 3 1
all 4 stop

case_ "a new process takes the place of a dead one"
ranks 4 -- ./faults replace
all 3 replace
expect_out '^new 2 of 4'

case_ "nor does it need a slot, if the old one is only stopped"
ranks 3 -- ./faults replace-stopped 1 2 1
all 2 replace-stopped

case_ "two are replaced, one after the other"
ranks 5 -- ./faults replace-two
all 5 replace-two

case_ "a program that is not there replaces nobody, and nobody hangs"
ranks 3 -- ./faults replace-nothing
all 2 replace-nothing

case_ "who finds no thread to look whether Open MPI answers works without"
if [ "$(id -u)" != 0 ]; then
    skip "needs root, to be a user of its own"
else
    ranks 3 -- ./faults few-threads || fail "status $?"
    all 3 few-threads
fi

# Without mpirun from here on.
case_ "a program that nobody launched is not launched"
expect_exit 0 ./comm
expect_out '^launched: no'

case_ "a shell inside a Slurm allocation is no launcher"
expect_exit 0 env SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NNODES=2 ./comm
expect_out '^launched: no'
expect_exit 0 env SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 ./comm # a batch script
expect_out '^launched: no'
expect_exit 0 env SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=4294967290 \
    SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0 \
    PMIX_NAMESPACE=slurm.pmix.7 ./comm # salloc's interactive step
expect_out '^launched: no'

case_ "a task of srun is launched"
expect_exit 0 env SLURM_JOB_ID=7 SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 PMIX_RANK=1 \
    PMIX_NAMESPACE=slurm.pmix.7.0 ./comm
expect_out '^launched: yes'

# NAME HINT VARIABLE...: two processes of a launcher that Open MPI cannot use; both must say so,
# soon
refused()
{
    local name=$1 hint=$2
    shift 2
    case_ "$name is refused"
    for rank in 0 1; do
        expect_exit 2 timeout 20 env "$@" PMI_RANK="$rank" SLURM_PROCID="$rank" ./comm exchange
        expect_err '2 processes'
        expect_err "hint: .*$hint"
    done
}
refused "mpirun's environment without mpirun" "Open MPI's own mpirun" OMPI_COMM_WORLD_SIZE=2
refused "MPICH's launcher" "Open MPI's own mpirun" PMI_SIZE=2
refused "srun without PMIx" "srun --mpi=pmix" SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2

case_ "a world of another size than promised is refused"
ranks 2 -- env OMPI_COMM_WORLD_SIZE=3 ./comm agree
expect_err "mpirun started 3 processes, but MPI sees 2"

case_ "nothing is left behind"
expect test -z "$(pgrep -f "^\./(comm|faults|notes) " || true)"
