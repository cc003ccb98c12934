#!/bin/bash
# netcheck.sh - 'yoke netcheck' between real processes: its output, its refusals, and its end when a
# rank dies or the user presses Ctrl-C. On a testbed, where the speed of every link is known, the
# numbers must be right and the slow host must be named.
# alone: it measures links
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_command mpirun
need_command script
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset "${!OMPI_MCA_@}" OMPI_COMM_WORLD_SIZE

# The pairs of the JSON in $OUT, a line each: FROM TO LATENCY P99 BANDWIDTH_31K BANDWIDTH
pairs()
{
    awk -F'[:,]' '
        /^  "pairs": \[/ { on = 1 }
        /^  \]/ { on = 0 }
        on && /^    }/ {
            print value["from"] + 0, value["to"] + 0, value["latency_us"], \
                value["latency_p99_us"], value["bandwidth_31k"], value["bandwidth"]
        }
        on && NF > 1 { gsub(/[ "]/, "", $1); value[$1] = $2 }' "$OUT"
}

# The scalar under KEY in the object NAME, at the top level of the JSON in $OUT.
inside() # NAME KEY
{
    awk -v name="$1" -v key="$2" -F': ' '
        $0 ~ "^  \"" name "\": " { on = 1; next }
        on && /^  [}\]]/ { exit }
        on && $0 ~ "^    \"" key "\": " { gsub(/[",]/, "", $2); print $2; exit }' "$OUT"
}

expect_all_pairs() # RANKS: each once, with numbers that can be
{
    pairs | awk -v n="$1" '
        { count[$1 " " $2]++ }
        $1 == $2 || $3 <= 0 || $4 < $3 || $5 <= 0 || $6 <= 0 { bad = 1 }
        END {
            for (a = 0; a < n; a++)
                for (b = 0; b < n; b++)
                    if (a != b && count[a " " b] != 1)
                        bad = 1
            exit bad || NR != n * (n - 1)
        }' || fail "not all pairs are there: $(pairs | tr '\n' ';')"
}

processes() # of jobs of this script
{
    grep -lsz "^MARK=$tmp\$" /proc/[0-9]*/environ
}

rank_of() # N: the process that is rank N
{
    processes | xargs -r grep -lsz "^OMPI_COMM_WORLD_RANK=$1\$" | while read -r file; do
        file=${file%/environ}
        [ "$(cat "$file/comm" 2>/dev/null)" != yoke ] || echo "${file#/proc/}"
    done | head -n 1
}

begin_check() # ARGS...: in the background, until it measures; its process is $pid
{
    : >"$ERR" # an earlier job wrote the line that is awaited
    MARK=$tmp timeout -k 5 60 yoke netcheck --verbose "$@" >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
    wait_until grep -q '^yoke: .*rank 0 to rank 1' "$ERR"
}

# Processes of this script, and folders whose makers have ended: other jobs may run on this machine.
left()
{
    processes
    find /dev/shm "${TMPDIR:-/tmp}" -maxdepth 1 -name 'yoke-mpi.*' -newer "$tmp/start" 2>/dev/null |
        while read -r folder; do
        maker=${folder##*/yoke-mpi.}
        [ -d "/proc/${maker%%.*}" ] || echo "$folder"
    done
}

nothing_left()
{
    [ -z "$(left)" ]
}
touch "$tmp/start"

case_ "three processes on this machine, as JSON"
expect_exit 0 yoke netcheck --json
expect_no_err
expect_same "$(head -n 1 "$OUT")$(tail -n 1 "$OUT")" "{}"
for key in schema version ranks pairs all_to_one all_to_all slowest asymmetric seconds; do
    expect_out "^  \"$key\": "
done
expect_all_pairs 3
expect_same "$(grep -cE '^      "(rank|host|pid)": ' "$OUT")" 9
expect_same "$(grep -c '"bytes": 31400' "$OUT")" 2
# of 6 pairs, of the slowest, of 2 patterns with 2 sizes
expect_same "$(grep -cE '"(bandwidth|bus_bandwidth)": [1-9]' "$OUT")" 11
expect_same "$(inside slowest from_host)" "$(inside slowest to_host)"

case_ "on a terminal it says what it is doing, and the table fits the page"
expect_exit 0 script -qec "yoke netcheck --workers 2" /dev/null
tr -d '\r' <"$OUT" >table
expect grep -q '^yoke: .* %, rank 1 to rank 0$' table
expect grep -q '^2 ranks on 1 host; every pair, one at a time$' table
expect grep -qE '^  0 .* +- +[0-9.]+$' table
expect grep -qE '^  all to one and back +31 KB +[0-9]+ [um]s +[0-9.]+ [MG]B/s' table
expect grep -qE '^  allreduce, 2 workers +[0-9]+ [um]s +[0-9.]+ m?s$' table
expect grep -q '^slowest: rank [01] .* to rank [01]' table
[ -z "$(awk 'length > 80' table)" ] || fail "a line is longer than 80 columns"

case_ "started by mpirun it just joins"
expect_exit 0 mpirun --bind-to none --oversubscribe -n 2 yoke netcheck --json
expect_all_pairs 2
expect_same "$(grep -c '"schema"' "$OUT")" 1

case_ "mistakes are answered with one sentence"
while read -r code args; do
    # shellcheck disable=SC2086 # words
    expect_error "$code" "${args#*@ }" yoke netcheck ${args%@*}
done <<'END'
2 --workers 1 @ needs two ranks at least, and this job has 1
2 --workers 0 @ 0 is out of range
2 --hosts localhost @ needs two ranks at least
2 --workers 3 --hosts localhost:2 @ --workers is 3 but --hosts has 2 slots
2 --hosts a_b @ 'a_b' is not the name of a host
2 --bandwidth 1gbit @ takes no option '--bandwidth'
2 --quiet --verbose @ exclude each other
2 softmax @ does not know what to do with 'softmax'
3 --hostfile missing @ cannot open 'missing'
END
expect_exit 2 mpirun --bind-to none --oversubscribe -n 2 yoke netcheck --workers 3
expect_err '^yoke: --workers is 3, but 2 processes were started'
expect_same "$(grep -c '^yoke: ' "$ERR")" 1

for victim in 2 0; do
    case_ "kill -9 of rank $victim ends it with exit code 4"
    begin_check --workers 3
    start=$SECONDS
    kill -KILL "$(rank_of "$victim")"
    ended 4
    expect test $((SECONDS - start)) -le 60 # at once, and not when a limit of minutes has passed
    expect_no_out
    expect_err "^yoke: .*rank $victim on '.*' is lost: process [0-9]+ has ended"
    wait_until nothing_left
done

case_ "who is told to stop does, without a result"
begin_check --workers 3
kill -TERM "$(cat "/proc/$pid/task/$pid/children")" # the child of 'timeout'
ended 143
expect_no_out
wait_until nothing_left

case_ "on a testbed the rates are those of the links, and the slow host is named"
if [ "$(id -u)" != 0 ]; then
    skip "needs root"
elif ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
    skip "needs ip and tc"
else
    expect_exit 0 yoke testbed run --hosts 3 --bandwidth 200mbit --slow-link n2:50mbit -- \
        yoke netcheck --hosts n0,n1,n2 --json
    expect_all_pairs 3
    # 200 Mbit/s is 25 MB/s, 50 Mbit/s 6.25 MB/s; headers take 5 %
    pairs | awk '{ rate = $1 == 2 || $2 == 2 ? 6.25e6 : 25e6 }
        $6 > rate || $6 < 0.6 * rate { bad = 1 } END { exit bad }' ||
        fail "a bandwidth is not its link's: $(pairs | tr '\n' ';')"
    expect_same "$(inside slowest host)" n2
    case "$(inside slowest from_host) $(inside slowest to_host)" in
    *n2*) ;;
    *) fail "the slowest link is $(inside slowest from_host) to $(inside slowest to_host)" ;;
    esac
    wait_until nothing_left
fi
