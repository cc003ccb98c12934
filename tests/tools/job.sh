# shellcheck shell=bash
# job.sh - functions for tests of jobs of several processes, on top of helpers.sh: they start a job,
# find its processes, end one of them, and look for processes and files that are left.
#
#   if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
#       OWN_SHM=yes exec unshare -m --propagation private bash "$0"
#   fi
#   . "$(dirname "$0")/../lib.sh"
#   . "$top/tests/tools/helpers.sh"
#   . "$top/tests/tools/job.sh"
#
# The first lines give the script a /dev/shm and a folder to work in of its own, so that any file
# there at the end is a job's. Without root only files with names of a yoke parent count. Open MPI's
# folders go into $TMPDIR, which is the script's too. MARK in its environment tells that a process
# belongs to a job.
: "${top:?lib.sh comes first}" "${tmp:?}"
need_command mpirun
# The folder is in memory too: on a busy disk a checkpoint might come when the run is over.
if [ -n "${OWN_SHM:-}" ]; then
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
# Seconds for which a machine may stop, beyond the time that is promised.
grace=10
# Seconds within which any awaited event comes; a busy machine is slow to start processes.
patience=${PATIENCE:-60}

# A command that hangs must not hang the test.
bounded() # SECONDS COMMAND...
{
    timeout -k 1 "$@"
}

# direct N ARGS...: yoke train as N ranks of an mpirun that knows nothing of yoke, as if a user had
# typed it, with the settings that ranks need to share cores.
direct()
{
    local n=$1
    shift
    bounded 60 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
        --mca orte_enable_recovery 1 -n "$n" yoke train "$@"
}

# --- processes ---

# begin_job COMMAND...: in the background, with its process in $pid. A shell without a terminal
# would make it ignore Ctrl-C.
begin_job()
{
    env --default-signal=INT,QUIT "$@" >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
}

since() # MICROSECONDS: milliseconds that have passed since
{
    echo $(((${EPOCHREALTIME/./} - $1) / 1000))
}

# Waits until COMMAND succeeds, for at most SECONDS + $grace; the status says whether it did. Time
# in which this shell could not run does not count, because the machine, and the job with it, stood
# still. On a busy machine a quick job may be over before a shell gets a core. So this shell has a
# real-time priority (its children do not), and starts no process between an event and a kill.
await() # SECONDS COMMAND...; COMMAND sees the local variables, hence their long names
{
    local await_left=$((($1 + grace) * 1000000)) await_then=${EPOCHREALTIME/./} await_now await_took
    shift
    while ! "$@"; do
        await_now=${EPOCHREALTIME/./}
        await_took=$((await_now - await_then)) await_then=$await_now
        await_left=$((await_left - (await_took >= 0 && await_took < 100000 ? await_took : 100000)))
        [ "$await_left" -gt 0 ] || return 1
        read -rt 0.005 -u "$silence"
    done
    return 0
}
exec {silence}<> <(:) # never written to
chrt --reset-on-fork --rr --pid 1 $$ >/dev/null 2>&1 # if that is allowed

is_gone() # PID: it has ended, or is a zombie
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

litter() # files in the folders that jobs use for a while
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
        fail "processes are left: $(ps -o pid=,ppid=,stat=,args= -p "$(processes | paste -sd,)" |
            tr '\n' ';')"
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

events_in() # RUN: the events of its summary
{
    sed -n '/"events": \[/,/\]/p' "$1/summary.json" | sed -nE 's/^ *"what": "(.*)",?$/\1/p'
}

# It happened: the summary and the log both say so.
expect_event() # RUN REGEX
{
    events_in "$1" | grep -qE -- "$2" ||
        fail "no event of '$1' matches '$2': $(events_in "$1" | tr '\n' ';')"
    grep -qE -- "$2" "$1/log.txt" || fail "'$1/log.txt' does not match '$2'"
}
