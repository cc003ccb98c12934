#!/bin/bash
# launch.sh - jobs of several processes begin and end well: a job that cannot work is refused at
# once, with the reason; Ctrl-C gives a checkpoint and the right status; and no process and no file
# is ever left behind.
# alone: it kills and waits, and a rank that gets no core for seconds looks dead
# san-1: the refusals and the signals
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
need_mnist
tool json_check
endless=100000000

# Two seconds are enough for every refusal, and on a busy machine twice what it takes mpirun to
# start two processes that do nothing.
before=${EPOCHREALTIME/./}
mpirun --oversubscribe -n 2 true
moment=$((2000 + 2 * $(since "$before")))
[ -z "$SANITIZED" ] || moment=$((moment * 5))

has_spoken()
{
    grep -q '^yoke: ' "$ERR" || is_gone "$pid"
}

# refused CODE REGEX COMMAND...: soon says a sentence that matches, then ends, and makes no run
# folder. mpirun takes a second or two to end the others when one of its ranks has, so it is the
# sentence that must come soon.
refused()
{
    local code=$1 regex=$2 start took=$moment tries
    shift 2
    for ((tries = 0; tries < 3 && took >= moment; tries++)); do # a machine may stop for seconds
        start=${EPOCHREALTIME/./}
        begin_job "$@"
        await 20 has_spoken
        took=$(since "$start")
        ended_with "$code" 20
    done
    [ "$took" -lt "$moment" ] || fail "it took $took ms to refuse"
    grep '^yoke: ' "$ERR" | grep -qE -- "$regex" || fail "no sentence matches '$regex'"
    expect_no_out
    expect_no_runs
    expect_nothing_left 2
}

# As the user would type it.
ranks=(mpirun --oversubscribe)

# --- refusals ---

case_ "mpirun starts another number of processes than the options need"
refused 2 "3 workers and 1 parameter server make 4 processes, but 2 were started" "${ranks[@]}" \
    -n 2 yoke train softmax --workers 3
expect_err "^hint: leave out --workers, or start 4"
refused 2 "3 workers and 0 parameter servers make 3 processes, but 2 were started" \
    "${ranks[@]}" -n 2 yoke train softmax --workers 3 --mode allreduce

case_ "ranks with other options"
refused 2 "rank 1 on '.*' has different options than rank 0" "${ranks[@]}" -n 1 yoke train softmax \
    --lr 0.01 : -n 1 yoke train softmax --lr 0.02

case_ "ranks with another model"
refused 2 "unknown model 'softmin'" "${ranks[@]}" -n 1 yoke train softmax : -n 1 yoke train softmin

case_ "ranks with another binary"
cp "$BUILD/yoke" other
echo >>other
refused 2 "rank 1 on '.*' has a different binary than rank 0" "${ranks[@]}" \
    -n 1 yoke train softmax : -n 1 ./other train softmax

case_ "ranks with other training data"
images=fake:28x28x1:10:1000
refused 2 "rank 1 on '.*' has different data than rank 0 on '" "${ranks[@]}" \
    -n 1 yoke train softmax --data "$images:1" : -n 1 yoke train softmax --data "$images:2"
expect_err "^hint: all ranks need .* the same files"
refused 2 "rank 2 on '.*' has different data than rank 0 on '" "${ranks[@]}" \
    -n 2 yoke train softmax --data "$images:1" : -n 1 yoke train softmax --data "$images:2"

case_ "ranks with other test data"
refused 2 "rank 1 on '.*' has different test data than rank 0 on '" "${ranks[@]}" \
    -n 1 yoke train softmax --data "$images:1" --test-data "$images:3" : \
    -n 1 yoke train softmax --data "$images:1" --test-data "$images:4"
expect_err "^hint: all ranks need .* the same files"
refused 2 "rank 2 on '.*' has different test data than rank 0 on '" "${ranks[@]}" \
    -n 2 yoke train softmax --data "$images:1" : \
    -n 1 yoke train softmax --data "$images:1" --test-data "$images:3"

case_ "a rank whose data are missing"
refused 3 "cannot open 'nowhere'" "${ranks[@]}" -n 1 yoke train softmax : \
    -n 1 yoke train softmax --data nowhere
refused 3 "cannot open 'nowhere'" "${ranks[@]}" -n 1 yoke train softmax --data nowhere : \
    -n 1 yoke train softmax

case_ "a rank that dies before it has met the others"
printf '#!/bin/sh\nexit 7\n' >dead
chmod +x dead
expect_exit 7 bounded 20 "${ranks[@]}" -n 1 yoke train softmax : -n 1 ./dead
expect_no_runs
expect_nothing_left 5

has_rank() # N: a process of the job in $pid is on its way to be that rank; it is $rank
{
    local one
    for one in $(processes); do
        rank=$one
        ! grep -qsz "^OMPI_COMM_WORLD_RANK=$1\$" "/proc/$one/environ" || return 0
    done
    return 1
}

case_ "a rank that is killed while it starts: the parent does not wait for it"
begin_job yoke train softmax --hosts localhost:2 --run unborn
await 10 has_rank 1 && kill -9 "$rank"
ended_with 4 10
expect_err "^yoke: the job is lost: rank 1 "
expect_no_out
expect_nothing_left 2

case_ "the environment of mpirun without mpirun, and of another MPI"
refused 2 "2 processes that Open MPI cannot connect" env OMPI_COMM_WORLD_SIZE=2 \
    OMPI_COMM_WORLD_RANK=0 yoke train softmax
expect_err "^hint: start it with Open MPI's own mpirun"
refused 2 "2 processes that Open MPI cannot connect" env PMI_SIZE=2 PMI_RANK=1 yoke train softmax

case_ "a yoke parent says once what its ranks found"
refused 3 "cannot open 'nowhere'" yoke train softmax --hosts localhost:3 --data nowhere
expect_one_sentence
refused 2 "unknown model 'softmix'" yoke train softmix --hosts localhost:2
expect_one_sentence
refused 2 "global batch" yoke train softmax --hosts localhost:2 --batch 31000
expect_one_sentence

case_ "a host that cannot be reached"
refused 4 "cannot start anything on host 'nowhere.invalid'" env OMPI_MCA_plm_rsh_agent=/bin/false \
    yoke train softmax --hosts localhost,nowhere.invalid
expect_err "^hint: .*ssh nowhere.invalid"

case_ "host names keep their domain"
# An ssh that only notes whom it was told to call. It takes its time, since mpirun calls nobody else
# once the first has failed.
mkdir -p ssh/bin
printf '#!/bin/sh\necho "$*" >>%s/called\nsleep 0.5\nexit 255\n' "$PWD/ssh" >ssh/bin/ssh
chmod +x ssh/bin/ssh
refused 4 "cannot start anything on one of the other hosts" env PATH="$PWD/ssh/bin:$PATH" \
    yoke train softmax --hosts node1.east.example,node1.west.example
expect_err "^hint: 'ssh node1.(east|west).example orted"
for host in node1.east.example node1.west.example; do
    expect grep -qE -- "(^| )$host " ssh/called
done
rm -f ssh/called

case_ "a full name of this machine is this machine: nobody calls ssh"
if [ -z "${OWN_SHM:-}" ]; then
    skip "needs root"
else
    own=$(hostname -I | cut -d' ' -f1)
    { cat /etc/hosts; echo "${own:-127.0.0.1} $(hostname).here.example alias.here.example"; } \
        >hosts.here
    mount --bind hosts.here /etc/hosts
    for host in "$(hostname)" "$(hostname).here.example" "localhost,alias.here.example"; do
        expect_exit 0 bounded 60 env PATH="$PWD/ssh/bin:$PATH" yoke train softmax --hosts "$host" \
            --threads 1 --steps 5 --run ../named --json --quiet
        expect_same "$(json host ../named/ranks.json)" "$(hostname)"
        rm -rf ../named
    done
    expect test ! -e ssh/called
    umount /etc/hosts
fi

case_ "options that do not fit each other, before anything is started"
refused 2 "--hosts and --hostfile" yoke train softmax --hosts localhost:2 --hostfile none
refused 2 "--workers is 3 but .* has 2 slots" yoke train softmax --hosts localhost:2 --workers 3
refused 2 "5 workers are more than --shards 4" yoke train softmax --hosts localhost:5 --shards 4
refused 2 "one worker, not 2" yoke train softmax --hosts localhost:2 --mode local
refused 2 "'a b' is not the name of a host" yoke train softmax --hosts 'a b'
refused 2 "where the workers are" yoke train softmax --ps-hosts localhost

case_ "no mpirun"
mkdir empty
refused 1 "cannot start 'mpirun'" env PATH="$PWD/empty" "$BUILD/yoke" train softmax \
    --hosts localhost:2
expect_err "^hint: .*openmpi-bin"

# --- where the hosts come from ---

trains() # RUN WORKERS COMMAND...: with so many workers, in processes of their own
{
    local run=$1 workers=$2
    shift 2
    expect_exit 0 bounded 60 "$@" --run "$run" --batch 100 --threads 1 --steps 50 --quiet
    expect_no_err
    expect_same "$(of workers "$run") $(of ps "$run") $(of global_steps "$run")" "$workers 1 50"
    expect_same "$(grep '"pid"' "$run/ranks.json" | sort -u | wc -l)" $((workers + 1))
}

case_ "--hosts: repeated, counted and by several names of this machine"
trains twice 3 yoke train softmax --hosts "localhost,localhost,127.0.0.1"

case_ "the hosts say how many workers there are, whatever a yoke.ini says"
echo 'workers = 3' >yoke.ini
expect_exit 0 yoke train softmax --hosts localhost:2 --steps 5 --json --quiet --run ../ini
expect_out '"workers": 2'
rm yoke.ini

case_ "--hostfile"
printf '# two kinds of lines\nlocalhost slots=2\n\nlocalhost # one more\n' >hosts
trains filed 3 yoke train softmax --hostfile hosts
refused_files() # CODE REGEX
{
    refused "$1" "$2" yoke train softmax --hostfile "$3"
}
mv filed twice .. # no run folder, as `refused` wants it
refused_files 3 "cannot .*'none'" none
printf '# nobody\n' >nobody
refused_files 3 "'nobody' names no host" nobody
printf 'localhost slots=many\n' >many
refused_files 3 "slots=n" many

tf_config() # TYPE INDEX
{
    echo '{"cluster": {"chief": ["localhost:1"], "worker": ["localhost:2", "localhost:3"],' \
        '"ps": ["localhost:4"]}, "task": {"type": "'"$1"'", "index": '"$2"'}}'
}

case_ "TF_CONFIG: the chief launches, the others say so and end"
trains chief 3 env TF_CONFIG="$(tf_config chief 0)" yoke train softmax
for task in "worker 1" "ps 0"; do
    expect_exit 0 env TF_CONFIG="$(tf_config "${task% *}" "${task#* }")" \
        yoke train softmax --run task
    expect_no_out
    expect_err "^yoke: TF_CONFIG says this is ${task% *}.*chief"
    expect test ! -e task
    expect_exit 0 env TF_CONFIG="$(tf_config "${task% *}" "${task#* }")" \
        yoke train softmax --run task --quiet
    expect_no_err
done
mv chief ..
refused 2 "^yoke: TF_CONFIG: " env TF_CONFIG='{"cluster": 7}' yoke train softmax

case_ "TF_CONFIG: a task that is not in the cluster"
refused 2 "TF_CONFIG says this is 'worker 7', but its cluster has 2 of that type" \
    env TF_CONFIG="$(tf_config worker 7)" yoke train softmax
refused 2 "TF_CONFIG says this is 'evil 0', but its cluster has 0 of that type" \
    env TF_CONFIG="$(tf_config evil 0)" yoke train softmax
refused 2 "TF_CONFIG: .* no worker" \
    env TF_CONFIG='{"cluster": {"worker": []}, "task": {"type": "worker", "index": 0}}' \
    yoke train softmax
expect_nothing_left 2

# --- signals ---

signalled=(--threads 1 --steps "$endless" --eval-every 10000 --checkpoint-every 0.2s \
    --hosts localhost:2)

# where the segments of shared memory are while it runs: not where a killed mpirun would leave them
scratch_of() # RUN
{
    grep -ho '/[^ ]*/vader_segment' "/proc/$(rank_pid "$1" worker 0)/maps" | sort -u
}

for what in "INT 130" "TERM 143" "HUP 129"; do
    case_ "SIG${what% *} to the parent: a checkpoint, status ${what#* }, and --resume goes on"
    run=by-${what% *}
    train_job "$run" "${signalled[@]}" --mode sync --shards 12 --global-batch 60
    expect_same "$(scratch_of "$run" | sed 's|yoke-mpi\.[0-9]*\.[^/]*|MINE|' | head -n 1)" \
        /dev/shm/MINE/vader_segment
    kill "-${what% *}" "$pid"
    ended_with "${what#* }" 10
    expect_nothing_left 2
    expect_same "$(of stop_reason "$run")" signal
    step=$(of global_steps "$run")
    expect_same "$(checkpoints_of "$run" | tail -n 1)" "$(printf 'step-%012d.safetensors' "$step")"
    expect_out "yoke train --resume $run"
    expect_err "^yoke: stopping"
done
expect_exit 0 yoke train --resume by-INT --steps $(($(of global_steps by-INT) + 500)) --quiet
expect_exit 0 yoke train softmax --shards 12 --global-batch 60 --threads 1 --eval-every 10000 \
    --steps "$(of global_steps by-INT)" --quiet --run whole
expect_same "$(params_of by-INT)" "$(params_of whole)"
expect_nothing_left 2

case_ "async saves what is under way, and counts it once when it goes on"
train_job loose "${signalled[@]}" --mode async --ps 2 --batch 20
kill -INT "$pid"
ended_with 130 10
before=$(of examples loose)
expect_exit 0 yoke train --resume loose --epochs $((before / 60000 + 1)) --quiet
expect_same "$(of examples loose)" $(((before / 60000 + 1) * 60000))
expect_nothing_left 2

case_ "a second signal does not wait"
train_job again "${signalled[@]}" --heartbeat 60
kill -STOP "$(rank_pid again worker 1)" # which would hold a polite end up
kill -INT "$pid"
sleep 0.2
kill -INT "$pid"
ended_with 130 3
expect_err "^yoke: stopped at once; 'yoke train --resume again' goes on from step [0-9]+"
expect_nothing_left 2

case_ "a signal while the processes start ends them"
for delay in 0.05 0.2 0.5; do
    begin_job yoke train softmax "${signalled[@]}" --run "early-$delay"
    sleep $delay
    kill -TERM "$pid"
    ended_with 143 5
    expect_nothing_left 2
done

case_ "under nohup a terminal that goes away is nobody's business"
begin_job nohup yoke train softmax --run hup --batch 20 --threads 1 --steps 5000 \
    --hosts localhost:2
await "$patience" test -s hup/ranks.json || fail "it does not start"
kill -HUP "$pid"
ended_with 0
expect_same "$(of stop_reason hup)" steps
expect_nothing_left 2

case_ "mpirun hands SIGUSR1 to its ranks: without a parent that is how to stop a job"
begin_job mpirun --oversubscribe --bind-to none -n 3 yoke train softmax --run usr --batch 20 \
    --threads 1 --steps $endless --checkpoint-every 0.2s
await "$patience" has_checkpoint usr || fail "no checkpoint"
kill -USR1 "$pid"
await_end 10
expect_same "$(of stop_reason usr)" signal
expect_nothing_left 5
