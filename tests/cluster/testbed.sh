#!/bin/bash
# testbed.sh - 'yoke testbed' makes hosts that reach each other, links and processors as slow as
# asked for, and Open MPI across them. Exit codes and signals are those of the command, and nothing
# is left behind, even if processes are killed at random.
#
# The script has a network, a /run and a /dev/shm of its own, so that it can compare complete
# listings before and after; its mounts are 'shared', as systemd makes them, so that one that
# escapes from a testbed would be seen.
# shellcheck disable=SC2016 # much of the quoted text is for shells inside
# alone: it measures links and cores, and compares listings of the whole machine
if [ "$(id -u)" = 0 ] && [ -z "${OWN_WORLD:-}" ] && unshare -m -n true 2>/dev/null; then
    OWN_WORLD=yes exec unshare -m -n --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
export SHELL=/bin/bash # script's: dash ends at Ctrl-C, though the command in front of it has not
need_root
need_command ip
need_command tc
need_command mpirun
need_command setpriv
need_command flock
need_command script
[ -n "${OWN_WORLD:-}" ] || skip_all "needs namespaces"
tool cluster/wire
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm && mount --make-rshared / || exit 1

testbed() # HOSTS ARGS...: marked, so that its processes can be told from all others
{
    local hosts=$1
    shift
    MARK=$tmp yoke testbed run --hosts "$hosts" "$@"
}

on='$OMPI_MCA_plm_rsh_agent' # as a testbed's command sees it

processes() # of testbeds of this script
{
    grep -lsz "^MARK=$tmp\$" /proc/[0-9]*/environ
}

no_processes()
{
    [ -z "$(processes)" ]
}

child() # PID [NAME]: the children of a process, or those called NAME
{
    local pid
    # shellcheck disable=SC2013 # one line of words
    for pid in $(cat "/proc/$1/task/$1/children"); do
        [ "$(cat "/proc/$pid/comm")" != "${2:-$(cat "/proc/$pid/comm")}" ] || echo "$pid"
    done
}

groups() # cgroups that no running testbed holds
{
    find /sys/fs/cgroup -maxdepth 3 -type d -name 'yoke-testbed-*' -exec flock -n {} echo {} ';' \
        2>/dev/null
}

listing()
{
    processes
    ip netns list
    ip -o link
    cut -d' ' -f4- /proc/self/mountinfo
    find /run /dev/shm -mindepth 1
    find "${TMPDIR:-/tmp}" /tmp -maxdepth 1 '(' -name 'ompi.n[0-9]*' -o -name 'yoke-testbed*' ')'
    groups
}

expect_exit 0 testbed 1 -- true # sweeps
listing >"$tmp/before"
expect_clean() # nothing new is on the machine, after half a minute at the latest
{
    local end=$((SECONDS + 30))
    while [ "$SECONDS" -le "$end" ]; do
        listing >"$tmp/after"
        cmp -s "$tmp/before" "$tmp/after" && return
        sleep 0.01
    done
    diff "$tmp/before" "$tmp/after"
    fail "something was left behind"
}

within() # VALUE LOW HIGH
{
    awk -v v="$1" -v low="$2" -v high="$3" 'BEGIN { exit !(v != "" && v >= low && v <= high) }' ||
        fail "'$1' is not within $2 and $3"
}

# A command that does not end when asked to: it takes the whole grace of ten seconds, so it runs
# beside the other cases.
cat >stubborn.sh <<'END'
trap '' TERM
echo $$ >stubborn
while :; do sleep 1; done
END
yoke testbed run --hosts 2 -- bash stubborn.sh &
stubborn=$!
wait_until test -s stubborn
kill -TERM "$stubborn"

# ---- refusals ----

case_ "mistakes are answered with one sentence, and nothing is made"
while read -r args; do
    # shellcheck disable=SC2086 # words
    expect_error 2 "${args#*@ }" yoke testbed ${args%@*}
done <<'END'
@ needs the word run
walk --hosts 3 -- true @ 'yoke testbed walk' is unknown
run -- true @ needs --hosts
run --hosts 3 @ needs a command after --
run --hosts 3 -- @ needs a command after --
run --hosts 0 -- true @ --hosts: 0 is out of range: 1 to 64
run --hosts 65 -- true @ --hosts: 65 is out of range
run --hosts n0,n1 -- true @ 'n0,n1' is not a number of hosts
run --hosts 3 --bandwidth fast -- true @ --bandwidth: 'fast' is not a rate
run --hosts 3 --bandwidth 100 -- true @ --bandwidth: '100' is not a rate
run --hosts 3 --bandwidth 1tbit -- true @ '1tbit' is not a rate
run --hosts 3 --bandwidth 500gbit -- true @ 500gbit is out of range
run --hosts 3 --bandwidth 0mbit -- true @ 0mbit is out of range
run --hosts 3 --slow n3:0.3 -- true @ --slow: there is no host 'n3': they are n0 to n2
run --hosts 1 --slow n1:0.3 -- true @ --slow: there is no host 'n1', only n0
run --hosts 3 --slow n2:0 -- true @ --slow: 0 is out of range: 0.01 to
run --hosts 3 --slow n2:half -- true @ 'half' is not a part of a core
run --hosts 3 --slow n2 -- true @ 'n2' is not HOST:VALUE
run --hosts 3 --slow n2:0.3,n2:0.4 -- true @ n2 is named twice
run --hosts 3 --slow-link n9:1gbit -- true @ --slow-link: there is no host 'n9'
run --hosts 3 --slow-link n1:quick -- true @ --slow-link: 'quick' is not a rate
END

case_ "a command that cannot be run is 127, or 126 if it is there"
expect_error 127 "cannot run 'no-such-program': no such file or directory" \
    yoke testbed run --hosts 1 -- no-such-program
expect_error 127 "cannot run '/no/such': no such file" yoke testbed run --hosts 1 -- /no/such
expect_error 126 "cannot run '/tmp': permission denied" yoke testbed run --hosts 1 -- /tmp
echo "no program" >text
expect_error 126 "cannot run './text': permission denied" yoke testbed run --hosts 1 -- ./text
expect_exit 2 yoke testbed run --hosts 1 -- sh -c 'exit 2'
expect_exit 127 yoke testbed run --hosts 1 -- sh -c 'exit 127'
expect_no_err

case_ "without root it says so"
chmod 755 "$tmp"
cp "$BUILD/yoke" "$tmp/yoke"
expect_error 1 "needs root" setpriv --reuid 65534 --clear-groups "$tmp/yoke" testbed run --hosts 3 \
    -- true
expect_err '^hint: sudo yoke testbed'
rm "$tmp/yoke"

case_ "without ip or tc it names the package"
for program in ip tc; do
    for file in $(type -aP "$program"); do
        echo "mount --bind /dev/null $file"
    done >hide.sh
    echo 'exec yoke testbed run --hosts 2 --bandwidth 1gbit -- true' >>hide.sh
    expect_error 1 "'$program', which is not on this machine" unshare -m --propagation private sh \
        hide.sh
    expect_err '^hint: .*iproute2'
done

case_ "where no cgroup can be made --slow is refused, and nothing else is"
expect_error 1 'less CPU: ' unshare -m --propagation private sh \
    -c 'umount -l /sys/fs/cgroup && exec yoke testbed run --hosts 2 --slow n1:0.3 -- true'
expect_exit 0 unshare -m --propagation private sh \
    -c 'umount -l /sys/fs/cgroup && exec yoke testbed run --hosts 2 -- true'

case_ "help fits a terminal and shows how"
expect_exit 0 yoke help testbed
expect_out 'mpirun -H n0,n1,n2 hostname'
expect_out '^ *--slow-link '
[ "$(wc -L <"$OUT")" -le 80 ] || fail "a line is too long"

# ---- the command's view ----

case_ "the command's exit code is yoke's"
expect_exit 0 testbed 1 -- true
for code in 1 4 7 128 255; do
    expect_exit "$code" testbed 2 -- sh -c "exit $code"
    expect_no_err
done
expect_exit 137 testbed 2 -- bash -c 'kill -KILL $$'
expect_exit 143 testbed 2 -- bash -c 'kill -TERM $$'
expect_clean

case_ "streams, folder, arguments and environment are those it would have without"
echo "some input" | FLAVOUR=plain testbed 2 -- \
    bash -c 'cat; pwd; echo "$FLAVOUR"; printf "<%s>" "$@"; echo aside >&2' - "a  b" '' -- '$x' \
    >"$OUT" 2>"$ERR"
expect test "$(cat "$OUT")" = "some input
$PWD
plain
<a  b><><--><\$x>"
expect test "$(cat "$ERR")" = aside

case_ "hosts have names and addresses, and reach each other"
expect_exit 0 testbed 3 -v -- bash -c 'hostname; ip -br addr show eth0
    for h in n0 n1 n2; do '"$on"' $h wire get 5000 >$h.rate & wire put $h 5000 1; wait $!; done
    ! ip netns exec n1 bash -c "exec 3<>/dev/tcp/n2/5001"'
expect_out '^n0$'
expect_out 'eth0.*UP.*198\.18\.0\.1/15'
expect_err '^yoke: n2 is 198.18.0.3$'
expect_err 'n2/5001: Connection refused' # so there is a way to n2
for host in n0 n1 n2; do
    within "$(cat $host.rate)" 1 1000000
done

case_ "sixty-four hosts are made and reached"
expect_exit 0 testbed 64 --bandwidth 10mbit \
    -- sh -c "$on n63 'hostname; wire get 5000' & wire put n63 5000 0.5; wait"
expect_out '^n63$'
expect_clean

case_ "links are up when the command starts, and that soon"
fastest=10000
for ((n = 0; n < 20 && fastest > 700; n++)); do # ms; one try is not disturbed
    start=${EPOCHREALTIME/./}
    expect_exit 0 testbed 3 -- bash -c 'ip netns exec switch bridge link
        for h in n0 n1 n2; do ip netns exec $h ip -o link show eth0; done'
    took=$(((${EPOCHREALTIME/./} - start) / 1000))
    [ "$took" -ge "$fastest" ] || fastest=$took
    expect test "$(grep -c 'state forwarding' "$OUT")/$(grep -c 'LOWER_UP.* state UP' "$OUT")" = 3/3
done
within "$fastest" 0 700

case_ "mpirun reaches the hosts"
expect_exit 0 testbed 3 -- mpirun -H n0,n1,n2 hostname
expect test "$(sort "$OUT")" = $'n0\nn1\nn2'
expect_exit 0 testbed 3 -- mpirun -H n0:2,n1:2,n2 sh \
    -c 'echo "$(hostname) $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"'
expect test "$(sort "$OUT")" = $'n0 0 of 5\nn0 1 of 5\nn1 2 of 5\nn1 3 of 5\nn2 4 of 5'
expect_exit 3 testbed 3 -- mpirun -H n0,n1,n2 sh -c 'exit 3'
expect_clean

# ---- as slow as asked for ----

case_ "a link carries its rate and no more, in either direction; only the slow one carries less"
cat >transfers.sh <<'END'
transfer()
{
    ip netns exec "$2" wire get "$3" >"$1-$2" &
    ip netns exec "$1" wire put "$2" "$3" 1.3
    wait $!
}
transfer n0 n1 5000 & transfer n1 n0 5001 & wait
transfer n0 n2 5002
transfer n2 n1 5003
ip netns exec n1 wire get 5004 2 >n0-n0-n1 & wire put n1 5004 1.3 & wire put n1 5004 1.3
wait
END
# A link never carries more than its rate, but on a busy machine it may carry less.
for _ in 1 2 3; do
    expect_exit 0 testbed 3 --bandwidth 100mbit --slow-link n2:20mbit -- bash transfers.sh
    slowest=$(sort -n n0-n1 n1-n0 n0-n0-n1 | head -n 1)
    slowest_of_n2=$(sort -n n0-n2 n2-n1 | head -n 1)
    within "$(sort -n n0-n1 n1-n0 n0-n0-n1 | tail -n 1)" 0 105
    within "$(sort -n n0-n2 n2-n1 | tail -n 1)" 0 21
    if [ "${slowest%.*}" -ge 70 ] && [ "${slowest_of_n2%.*}" -ge 14 ]; then
        break
    fi
done
within "$slowest" 70 105
within "$slowest_of_n2" 14 21

case_ "a slow host has its part of a core, however it is reached and however many want it"
cat >burn.sh <<'END'
TIMEFORMAT=%U
exec 2>"$1/$(hostname).cpu"
time { timeout 1 sh -c 'while :; do :; done' & timeout 1 sh -c 'while :; do :; done'; wait; }
END
mkdir direct launched
for _ in 1 2 3 4 5; do # never more than its part, but on a busy machine perhaps less
    expect_exit 0 testbed 3 --slow n2:0.3,n0:0.5 -- bash -c "bash burn.sh direct
        $on n2 bash $PWD/burn.sh $PWD/direct
        mpirun -H n1,n2 bash $PWD/burn.sh $PWD/launched
        grep nr_throttled /run/yoke/cgroup/*/cpu.stat"
    within "$(cat direct/n0.cpu)" 0.01 0.6
    within "$(cat direct/n2.cpu)" 0.01 0.36
    within "$(cat launched/n2.cpu)" 0.01 0.36
    [ "$(grep -c 'n[02]/cpu.stat:nr_throttled [1-9]' "$OUT")" != 2 ] || break
done
expect_out 'n0/cpu.stat:nr_throttled [1-9]'
expect_out 'n1/cpu.stat:nr_throttled 0$'
expect_out 'n2/cpu.stat:nr_throttled [1-9]'
within "$(cat launched/n1.cpu)" 0.01 2.1
expect_clean

case_ "a link can be taken down and up again, and a connection outlives it"
expect_exit 0 testbed 2 --bandwidth 100mbit -- bash -c '
    ip netns exec n1 wire get 5000 & wire put n1 5000 2 &
    sleep 0.6; ip netns exec n1 ip link set eth0 down
    sleep 0.3; ip netns exec n1 ip link set eth0 up
    sleep 0.2; ip netns exec switch ip link set n1 down
    sleep 0.2; ip netns exec switch ip link set n1 up
    wait'
within "$(cat "$OUT")" 10 85

# ---- signals ----

cat >count.sh <<'END'
trap 'echo INT >>got' INT
trap 'echo TERM >>got; exit 5' TERM
: >got
for ((i = 0; i < 60; i++)); do
    sleep 0.02
    [ ! -s got ] || [ "$i" -gt 50 ] || i=51
done
END

# count_signal SIGNAL HOW: how many count.sh gets if it is sent to yoke alone ("") or to its process
# group ("-")
count_signal()
{
    rm -f got
    setsid env --default-signal=INT "MARK=$tmp" yoke testbed run --hosts 2 -- bash count.sh &
    pid=$!
    wait_until test -e got
    kill "-$1" -- "$2$pid"
    status=0
    wait "$pid" || status=$?
}

case_ "a signal reaches the command once, sent to yoke or to the group"
count_signal INT ''
expect_same "$(cat got)/$status" INT/0
count_signal INT -
expect_same "$(cat got)/$status" INT/0
count_signal TERM ''
expect_same "$(cat got)/$status" TERM/5
count_signal TERM -
expect_same "$(cat got)/$status" TERM/5
expect_clean

case_ "Ctrl-C on a terminal goes to the command, and yoke waits for it"
rm -f got
{ wait_until test -e got; printf '\003'; wait_until grep -q status got; } | timeout 60 script \
    -qec "yoke testbed run --hosts 2 -- bash count.sh; echo status \$? >>got" /dev/null >"$OUT" 2>&1
expect_same "$(cat got)" $'INT\nstatus 0'
expect_clean

case_ "a shell on a terminal has job control; the terminal comes back even if the shell is killed"
printf 'sleep 100 &\njobs\nkill %%1\nhostname\nexit 6\n' | timeout 60 script \
    -qec "yoke testbed run --hosts 2 -- bash --norc -i; echo status \$?" /dev/null >"$OUT" 2>&1
expect_out 'Running +sleep 100'
expect_out 'n0.?$'
expect_out 'status 6'
printf 'kill -9 $$\nline\n' | timeout 60 script \
    -qec "yoke testbed run --hosts 2 -- bash --norc -i; read -r line; echo status \$? \$line" \
    /dev/null >"$OUT" 2>&1
expect_out 'status 0 line'
expect_clean

case_ "a terminal that goes away takes everything with it"
rm -f got
mkfifo idle
exec 9<>idle
script -qec "MARK=$tmp yoke testbed run --hosts 2 -- sh -c 'echo >got; sleep 20'" /dev/null <&9 \
    >/dev/null 2>&1 &
pid=$!
exec 9<&-
wait_until test -s got
kill -KILL "$pid"
wait "$pid" 2>/dev/null
expect_clean

# ---- kills ----

# What the command of a killed testbed does: everything that could be left behind.
cat >litter.sh <<'END'
setsid sleep 100 &
ip netns exec n1 sleep 100 &
echo up >up
exec mpirun -H n0,n1,n2 sleep 100
END

case_ "kill -9 of yoke, of its first process, of the command, at any time: nothing is left"
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "SEED=$seed"
RANDOM=$seed
for i in 1 2 3 4 5 6 7 8 9; do
    rm -f up
    setsid env "MARK=$tmp" yoke testbed run --hosts 3 --bandwidth 1gbit --slow n2:0.5 -- \
        bash litter.sh >/dev/null 2>&1 &
    pid=$!
    case $i in
    [1-5]) # while it is built, or soon after
        sleep "0.0$((RANDOM % 90 + 10))"
        kill -KILL "$pid"
        ;;
    6 | 7) # while it runs
        wait_until test -e up
        sleep "0.$((RANDOM % 5))"
        kill -KILL "$pid"
        ;;
    8)
        wait_until test -e up
        kill -KILL "$(child "$pid" yoke)"
        ;;
    9)
        wait_until test -e up
        kill -KILL "$(child "$(child "$pid" yoke)" | head -n 1)"
        ;;
    esac
    wait "$pid" 2>/dev/null
    expect_clean
done

case_ "a training job inside goes with it"
MARK=$tmp yoke testbed run --hosts 2 -- yoke train softmax --mode async --hosts n0,n1 \
    --steps 100000000 --run inside >/dev/null 2>&1 &
pid=$!
wait_until test -e inside/ranks.json
kill -KILL "$pid"
wait "$pid" 2>/dev/null
expect_clean

case_ "what a killed janitor left is swept by the next start"
rm -f up
MARK=$tmp yoke testbed run --hosts 3 --slow n2:0.5 -- bash litter.sh >/dev/null 2>&1 &
pid=$!
wait_until test -e up
kill -KILL "$(child "$pid" yoke-janitor)" "$pid"
wait "$pid" 2>/dev/null
wait_until no_processes
expect test "$(groups | wc -l)" = 1
expect_exit 0 testbed 1 -- true
expect_clean

case_ "two at a time do not meet"
testbed 2 --slow n1:0.9 -- bash -c 'sleep 0.3; mpirun -H n0,n1 hostname' >one 2>&1 &
expect_exit 0 testbed 2 --slow n1:0.9 -- mpirun -H n0,n1 hostname
expect test "$(sort "$OUT")" = $'n0\nn1'
wait $!
expect test "$(sort one)" = $'n0\nn1'
expect_clean

case_ "a command that does not end when asked to is killed after ten seconds"
for ((n = 0; n < 600; n++)); do
    kill -0 "$stubborn" 2>/dev/null || break
    sleep 0.1
done
! kill -KILL "$stubborn" 2>/dev/null || fail "it still runs"
status=0
wait "$stubborn" || status=$?
expect_same "$status" 143
expect_clean
