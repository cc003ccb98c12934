#!/bin/bash
# slurm.sh - jobs started by srun, on a Slurm of this script's own: two nodes on this machine, a
# munge with its own key and socket, and a network, processes and a /dev/shm that end with the
# script. The system's Slurm, if there is one, is neither read nor touched.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_WORLD:-}" ] && unshare -m -n --pid --fork true \
    2>/dev/null; then
    OWN_WORLD=yes exec unshare -m -n --pid --fork --kill-child --mount-proc --propagation private \
        bash "$0"
fi
PATH=$PATH:/usr/sbin:/sbin
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_root
[ -n "${OWN_WORLD:-}" ] || skip_all "needs namespaces"
need_command srun
need_command slurmctld
need_command slurmd
need_command munged
need_command ip
need_mnist
tool json_check
unset "${!SLURM_@}" "${!OMPI_@}" "${!PMIX_@}"
mount -t tmpfs tmpfs /dev/shm && ip link set lo up && ip link add eth0 type veth peer name eth1 &&
    ip link set eth0 up &&
    ip link set eth1 up && ip address add 198.18.255.1/24 dev eth0 ||
    exit 1 # neither Slurm nor Open MPI is content with 127.0.0.1

# --- a cluster of two nodes, both this machine ---

slurm=$tmp/slurm
mkdir -m 755 "$slurm" "$slurm/munge" "$slurm/state" "$slurm/tmp" "$slurm/tmp/n0" "$slurm/tmp/n1"
chmod 755 "$tmp"
export SLURM_CONF=$slurm/slurm.conf
cat >"$SLURM_CONF" <<END
ClusterName=yoke
SlurmctldHost=$(uname -n)(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$slurm/munge/socket
StateSaveLocation=$slurm/state
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdSpoolDir=$slurm/spool-%n
SlurmdPidFile=$slurm/slurmd-%n.pid
SlurmdLogFile=$slurm/slurmd-%n.log
TmpFS=$slurm/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName=n0 NodeHostname=$(uname -n) NodeAddr=127.0.0.1 Port=7010 CPUs=4
NodeName=n1 NodeHostname=$(uname -n) NodeAddr=127.0.0.1 Port=7011 CPUs=4
PartitionName=all Nodes=n0,n1 Default=YES State=UP
END

case_ "a Slurm of our own starts"
dd if=/dev/urandom of="$slurm/munge/key" bs=128 count=1 status=none
chmod 400 "$slurm/munge/key"
munged --force --socket="$slurm/munge/socket" --key-file="$slurm/munge/key" \
    --pid-file="$slurm/munge/pid" --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" \
    --num-threads=1 >"$OUT" 2>"$ERR" </dev/null || fail "munged does not start"
slurmctld -D >"$slurm/daemons" 2>&1 </dev/null &
for node in n0 n1; do
    slurmd -D -N $node >>"$slurm/daemons" 2>&1 </dev/null &
done
nodes_are_idle()
{
    [ "$(timeout 2 sinfo -h -o '%T %D' 2>/dev/null)" = "idle 2" ]
}
wait_until nodes_are_idle || skip_all "Slurm does not start here: $(grep -h error "$slurm"/*.log |
    tail -n 1)"

# --- jobs ---

same=(--global-batch 60 --shards 12 --threads 1 --epochs 3 --eval-every 2000)
expect_exit 0 yoke train softmax "${same[@]}" --quiet --run local
bits=$(params_of local)

expect_bits() # RUN
{
    expect_same "$(params_of "$1") $(json examples "$1/summary.json")" "$bits 180000"
}

nobody_is_left()
{
    ! pgrep -x yoke >/dev/null && [ -z "$(find /dev/shm -mindepth 1)" ]
}

expect_nobody_left()
{
    wait_until nobody_is_left ||
        fail "something is left: $(pgrep -ax yoke) $(find /dev/shm -mindepth 1)"
}

slurm() # TASKS ARGS...: yoke train over both nodes
{
    local tasks=$1
    shift
    timeout -k 1 60 srun -Q -N 2 -n "$tasks" --mpi=pmix yoke train "$@"
}

case_ "srun --mpi=pmix on two nodes: the bits of the local run, and one word from all"
expect_exit 0 slurm 4 softmax "${same[@]}" --mode sync --run sync --json --quiet
expect_no_err
expect json_check workers_detail.2.phases.wait params_xxh3 <"$OUT"
expect_same "$(json workers) $(json ps)" "3 1"
expect_bits sync
expect_exit 0 slurm 3 softmax "${same[@]}" --mode allreduce --run ring --quiet
expect_bits ring
expect_nobody_left

case_ "srun without PMIx starts strangers: all of them say so at once"
expect_exit 2 timeout -k 1 10 srun -Q -n 2 --mpi=none yoke train softmax --run strangers
expect_same "$(grep -c '^yoke: srun started 2 processes that Open MPI cannot connect' "$ERR")" 2
expect_err "^hint: 'srun --mpi=pmix'"
expect test ! -e strangers

case_ "another number of tasks than the options need"
expect_exit 2 slurm 2 softmax --workers 3 --run few
expect_err "3 workers and 1 parameter server make 4 processes, but 2 were started"
expect test ! -e few

case_ "ranks that cannot reach each other end, and do not crash"
expect_exit_of_unreachable() { [ "$1" != 0 ] && [ "$1" != 139 ]; }
run timeout -k 1 40 env OMPI_MCA_btl=self srun -Q -K -N 2 -n 2 --mpi=pmix yoke train softmax \
    --run apart
expect expect_exit_of_unreachable $?
expect_err "^yoke: cannot meet the other ranks"
expect_nobody_left

in_background() # TASKS ARGS...: until it has a checkpoint; its process is $pid
{
    slurm "$@" >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
    wait_until eval "ls '${*: -1}'/checkpoints/*.safetensors >/dev/null 2>&1"
}

last_worker() # RUN: its process
{
    grep '"pid"' "$1/ranks.json" | tail -n 1 | tr -dc 0-9
}

case_ "a task is killed: the others go on, and the bits stay"
in_background 4 softmax "${same[@]}" --mode sync --checkpoint-every 300 --run torn
kill -9 "$(last_worker torn)"
wait "$pid" # srun's own word on it is the killed one's
expect_bits torn
expect grep -q 'worker 2 is lost: process [0-9]* has ended; going on with 2' torn/log.txt
expect_nobody_left

case_ "Slurm starts no new one: it says so and goes on without"
in_background 4 softmax "${same[@]}" --mode sync --checkpoint-every 300 --on-worker-loss replace \
    --run short
kill -9 "$(last_worker short)"
wait "$pid"
expect_bits short
expect grep -q 'worker 2 cannot be replaced: .* cannot start processes later.*; going on without' \
    short/log.txt
expect_nobody_left

case_ "srun hands signals on: SIGUSR1 makes it save and stop"
in_background 3 softmax --threads 1 --steps 100000000 --eval-every 10000 --checkpoint-every 0.2s \
    --run asked
kill -USR1 "$(pgrep -ox srun)"
wait_until test -e asked/summary.json
wait "$pid"
expect_same "$(json stop_reason asked/summary.json)" signal
expect_same "$(checkpoints_of asked | tail -n 1)" \
    "$(printf 'step-%012d.safetensors' "$(json global_steps asked/summary.json)")"
expect_nobody_left
