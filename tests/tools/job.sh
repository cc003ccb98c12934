# shellcheck shell=bash
# job.sh - what the tests of jobs of several processes share, on top of helpers.sh: starting one, finding its processes, ending one of them, and
# looking for what is left.
#
#   if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
#       OWN_SHM=yes exec unshare -m --propagation private bash "$0"
#   fi
#   . "$(dirname "$0")/../lib.sh"
#   . "$top/tests/tools/helpers.sh"
#   . "$top/tests/tools/job.sh"
#
# The first lines give the script a /dev/shm (and a folder to work in) of its own, so that whatever is there at the end is a job's;
# without root only names that a yoke parent gives are looked at. Open MPI's folders go into $TMPDIR, which is the script's
# too. A process of a job is known by MARK in its environment.
: "${top:?lib.sh comes first}" "${tmp:?}"
need_command mpirun
if [ -n "${OWN_SHM:-}" ]; then # the work is in memory too: a checkpoint on a busy disk comes when the run is over
    mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs "$tmp/work" && cd "$tmp/work" || exit 1
    trap unmount_at_exit EXIT
fi

unmount_at_exit()
{
    local status=$?
    cd / && umount -l "$tmp/work"
    (exit "$status")
    at_exit
}

mkdir "$tmp/tmp"
export TMPDIR=$tmp/tmp MARK=$tmp
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset "${!OMPI_MCA_@}" "${!SLURM_@}" "${!PMIX_@}" OMPI_COMM_WORLD_SIZE PMI_SIZE YOKE_PARENT
patience=${PATIENCE:-30} # seconds within which everything that is awaited has come; a busy machine is slow to start four processes

# Without an answer a test of hanging would hang itself.
bounded() # SECONDS COMMAND...
{
    timeout -k 1 "$@"
}

# as if the user had typed it: ranks of an Open MPI that knows nothing of yoke; what they need to share cores is set
direct() # N ARGS...: yoke train as N ranks of an mpirun of our own
{
    local n=$1
    shift
    bounded 60 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca orte_enable_recovery 1 -n "$n" yoke train "$@"
}

# --- processes ---

# In the background, its process in $pid. A shell that is no terminal's would have it ignore Ctrl-C.
begin_job() # COMMAND...
{
    env --default-signal=INT,QUIT "$@" >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
}

since() # MICROSECONDS: milliseconds that have passed since
{
    echo $(((${EPOCHREALTIME/./} - $1) / 1000))
}

# Wait until COMMAND holds, SECONDS at most; whether it does is the function's status. A job is quick, and on a busy machine it may be over
# before a shell has had its turn: so this one goes before all others (its children do not), and starts no process between
# an event and a kill.
await() # SECONDS COMMAND...
{
    local end=$((${EPOCHREALTIME/./} + $1 * 1000000))
    shift
    while ! "$@"; do
        [ "${EPOCHREALTIME/./}" -lt "$end" ] || return 1
        read -rt 0.005 -u "$silence"
    done
    return 0
}
exec {silence}<> <(:) # nobody ever writes into it
chrt --reset-on-fork --rr --pid 1 $$ >/dev/null 2>&1 # as far as it may

is_gone() # PID: it has ended, or it has and nobody has asked how
{
    local state
    { read -r _ _ state _ <"/proc/$1/stat"; } 2>/dev/null || return 0
    [ "$state" = Z ]
}

# The command of begin_job ends within SECONDS; its status is then in $status.
await_end() # SECONDS
{
    status=0
    if ! await "$1" is_gone "$pid"; then
        fail "it is still there after $1 s"
        kill_processes
    fi
    { wait "$pid" || status=$?; } 2>/dev/null
}

ended_with() # CODE [SECONDS]
{
    await_end "${2:-$patience}"
    [ "$status" = "$1" ] || fail "it ended with status $status, not $1"
}

processes() # of all jobs of this script
{
    env -u MARK grep -lsz "^MARK=$tmp\$" /proc/[0-9]*/environ | env -u MARK tr -dc '0-9\n'
}

no_processes()
{
    local one
    for one in $(processes); do
        is_gone "$one" || return 1
    done
}

kill_processes() # all of them at once, as when a machine loses its power
{
    local all
    all=$(processes)
    # shellcheck disable=SC2086 # words
    [ -z "$all" ] || kill -9 $all 2>/dev/null
}

children() # PID NAME: its children of that name
{
    local one
    # shellcheck disable=SC2013 # one line of words
    for one in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        [ "$(cat "/proc/$one/comm" 2>/dev/null)" != "$2" ] || echo "$one"
    done
}

litter() # what is in the folders that jobs use for a while
{
    if [ -n "${OWN_SHM:-}" ]; then
        find /dev/shm "$TMPDIR" -mindepth 1 2>/dev/null
    else
        find /dev/shm -maxdepth 1 -name "yoke-mpi.${pid:-0}.*" 2>/dev/null
        find "$TMPDIR" -mindepth 1
    fi
}

no_litter()
{
    [ -z "$(litter)" ]
}

# Nothing is left of any job, SECONDS after now at the latest: no process and no file.
expect_nothing_left() # [SECONDS]
{
    if ! await "${1:-2}" no_processes; then
        fail "processes are left: $(ps -o pid=,ppid=,stat=,args= -p "$(processes | paste -sd,)" | tr '\n' ';')"
        kill_processes
    fi
    await 2 no_litter || fail "files are left: $(litter | head -n 5 | tr '\n' ' ')"
}

# --- ranks ---

# The process of a rank of RUN, ps 0, 1, ... or worker 0, 1, ..., into $rank.
find_rank() # RUN ROLE NUMBER
{
    local lines line role='' n=-1
    rank=''
    mapfile -t lines 2>/dev/null <"$1/ranks.json" || return
    for line in "${lines[@]}"; do
        case $line in
        *'"role"'*) role=$line ;;
        *'"pid"'*)
            [[ $role != *"\"$2\""* ]] || n=$((n + 1))
            if [ "$n" = "$3" ]; then
                rank=${line//[!0-9]/}
                return
            fi
            ;;
        esac
    done
}

rank_pid() # RUN ROLE NUMBER: likewise, printed
{
    find_rank "$@"
    echo "$rank"
}

has_checkpoint() # RUN
{
    compgen -G "$1/checkpoints/*.safetensors" >/dev/null
}

# train_job RUN ARGS...: a job over processes, in the background, and its first checkpoint
train_job()
{
    local run=$1
    shift
    begin_job yoke train softmax --run "$run" "$@"
    await "$patience" has_checkpoint "$run" || fail "no checkpoint of '$run' within $patience s"
}

kill_rank() # SIGNAL RUN ROLE NUMBER
{
    local rank
    find_rank "$2" "$3" "$4"
    if [ -z "$rank" ] || ! kill "-$1" "$rank"; then
        fail "there is no $3 $4 of '$2' to send $1"
    fi
}

# --- results ---

of() # KEY RUN: of its summary
{
    json "$1" "$2/summary.json"
}

# The numbers under KEY of all workers, one a line.
each() # KEY RUN
{
    sed -n '/"workers_detail"/,$p' "$2/summary.json" | sed -nE "s/^ *\"$1\": *([0-9.]+),?$/\1/p"
}

total() # of the numbers on standard input
{
    awk '{ n += $1 } END { print n + 0 }'
}

events_in() # RUN: what its summary says happened
{
    sed -n '/"events": \[/,/\]/p' "$1/summary.json" | sed -nE 's/^ *"what": "(.*)",?$/\1/p'
}

# It happened: the summary and the log both say so.
expect_event() # RUN REGEX
{
    events_in "$1" | grep -qE -- "$2" || fail "no event of '$1' matches '$2': $(events_in "$1" | tr '\n' ';')"
    grep -qE -- "$2" "$1/log.txt" || fail "'$1/log.txt' does not match '$2'"
}
