#!/bin/bash
# stranger.sh - a stranger on the network of a job connects to a rank, sends four bytes and waits,
# which keeps Open MPI from everything else. The log says so within seconds, and the job goes on
# when the stranger is gone. Between hosts ranks have to listen, so no more can be done.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_root
need_command ip
need_command tc
need_command mpirun
unshare -n true 2>/dev/null || skip_all "needs namespaces"
need_mnist
export top

# Runs on n0 of a testbed of three: the job is on n0 and n1, the stranger on n2.
cat >inside.sh <<'END'
. "$top/tests/tools/ports.sh"
soon() # COMMAND...: within 30 s
{
    for _ in $(seq 600); do
        ! "$@" || return 0
        sleep 0.05
    done
    return 1
}
has_checkpoint()
{
    compgen -G 'run/checkpoints/*.safetensors' >/dev/null
}
env --default-signal=INT yoke train softmax --mode async --hosts n0,n1 --run run --threads 1 \
    --batch 20 --steps 100000000 --checkpoint-every 0.2s --eval-every 100000 --quiet &
job=$!
soon has_checkpoint || echo "no checkpoint"
first=$(sed -nE 's/^ *"pid": *([0-9]+),?$/\1/p' run/ranks.json | head -n 1)
port=$(ports_of "$first" tcp | head -n 1)
echo "port ${port:-none}"
printf '%s\n' "echo \$\$ >$PWD/guest" "top=$top" ". $top/tests/tools/ports.sh" \
    "stranger 198.18.0.1 $port 60" >guest.sh
$OMPI_MCA_plm_rsh_agent n2 bash "$PWD/guest.sh" &
soon grep -q 'Open MPI has not answered' run/log.txt && echo "it was named"
kill "$(cat guest)"
soon grep -q 'Open MPI answers again' run/log.txt && echo "it is over"
kill -INT "$job"
wait "$job"
echo "status $?"
END

case_ "a stranger between hosts is named in the log"
expect_exit 0 timeout -k 5 150 yoke testbed run --hosts 3 -- bash inside.sh
expect_out '^port [0-9]+$'
expect_out '^it was named$'
expect_out '^it is over$'
expect_out '^status 130$'
expect_err 'rank 0: Open MPI has not answered for 1\.[0-9] s; a connection from outside may block'
expect grep -qE 'rank 0: Open MPI answers again, after [0-9.]+ s' run/log.txt
expect grep -q '"what": "rank 0: Open MPI answers again, after' run/summary.json
