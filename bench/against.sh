#!/bin/bash
# against.sh - this build against another program, turn by turn on fifteen workloads: did a change
# make anything faster or slower?
#
#   BUILD=build bench/against.sh [--only REGEX] [--rounds N] [--isa NAME] OTHER    another yoke
#   PART=0.1 in the environment: a tenth of the work of each turn, for a quick look
#
# A round of a workload is a pair of runs, one of each program, in new processes and folders; every
# other round begins with the other one. A row shows the medians of both, the median of the ratios
# of the pairs (this / other) and the quartiles between which the middle half of them lies. Where
# both quartiles are on the same side of 1 and at least 3 % away from it, the row says better or
# worse (from 4 rounds on); the other rows show no difference that this machine could tell. Each
# program has a cache of its own, so neither reads what the other wrote, and nets run on a named
# engine, so that neither takes another one by chance. 7 rounds take under 10 minutes on two cores.
# Exit status 0 unless something is broken; slow is not broken.
usage()
{
    echo "usage: bench/against.sh [--only REGEX] [--rounds 1..99] [--isa NAME] OTHER" >&2
    exit 2
}
only='.*' rounds=7 other=
while [ $# -gt 0 ]; do
    case $1 in
    --only | --rounds | --isa)
        [ $# -ge 2 ] || usage
        case $1 in
        --only) only=$2 ;;
        --rounds) rounds=$2 ;;
        --isa) ISA=$2 ;;
        esac
        shift 2 ;;
    -*) usage ;;
    *)
        [ -z "$other" ] || usage
        other=$(realpath "$1")
        shift ;;
    esac
done
[ -x "$other" ] || usage
. "$(dirname "$0")/lib.sh"
number ROUNDS "$rounds" 1 99
part=${PART:-1}
rows=$(calc "int(200000 * $part)")
mnist=$("$yoke" data fetch mnist) || exit
cd "$tmp" || exit 1
ln -s "$yoke" this
ln -s "$other" other
"$yoke" data synth criteo --rows "$rows" -o rows.libsvm --quiet || exit
for who in this other; do
    mkdir -p "$who.cache/yoke"
    ln -s "$mnist" "$who.cache/yoke/mnist"
done

# The workloads: name, unit, which is better, what is measured, and its arguments. STEPS* is the
# number of steps of a whole turn.
softmax='rate softmax --batch'
many='rate softmax --batch 60 --threads 1 --mode'
lenet='lenet --engine lanes --schedule constant --batch 64 --threads 2'
workloads="softmax, batch 1|steps/s|higher|$softmax 1 --threads 1 STEPS*400000
softmax, batch 10|steps/s|higher|$softmax 10 --threads 1 STEPS*150000
softmax, batch 100|steps/s|higher|$softmax 100 --threads 1 STEPS*25000
async, 3 threads|updates/s|higher|$many async --workers 3 STEPS*60000
sync, 3 threads|updates/s|higher|$many sync --workers 3 STEPS*15000
async, 3 by MPI|updates/s|higher|$many async --hosts localhost:3 STEPS*25000
sync, 3 by MPI|updates/s|higher|$many sync --hosts localhost:3 STEPS*8000
logreg, from cache|rows/s|higher|cached
logreg, from text|rows/s|higher|parsed
LeNet, batch 64|steps/s|higher|rate $lenet STEPS*600
AlexNet, batch 16|steps/s|higher|rate alexnet --engine onednn --batch 16 --threads 2 STEPS*5
matmul|GFLOPS|higher|product
start-up|s|lower|start
peak memory, softmax|MB|lower|memory softmax --batch 100 --threads 1 STEPS*1000
peak memory, LeNet|MB|lower|memory $lenet STEPS*50"

# train ARGUMENTS...: one run of $who, its summary into the file summary
train()
{
    local words=() word steps=1
    for word; do
        if [[ $word = STEPS\** ]]; then
            steps=$(calc "int(${word#*\*} * $part) > 0 ? int(${word#*\*} * $part) : 1")
            words+=(--steps "$steps" --eval-every "$steps" --checkpoint-every "$steps")
        else
            words+=("$word")
        fi
    done
    rm -rf run
    must "./$who" train "${words[@]}" --isa "$isa" --run run --json --quiet >summary
}
rate()
{
    train "$@"
    json steps_per_second
}
memory()
{
    train "$@"
    calc "$(json peak_rss_bytes) / 1e6"
}
pass=(logreg --data rows.libsvm --shuffle-buffer 1 --batch 1 --threads 1 --eval-every "$rows"
    --checkpoint-every "$rows")
cached()
{
    train "${pass[@]}"
    json examples_per_second
}
parsed()
{
    find "$who.cache/yoke" -mindepth 1 -maxdepth 1 -not -name mnist -exec rm -rf {} +
    train "${pass[@]}"
    calc "$rows / ($(json startup_seconds) + $(json seconds | head -n 1))"
}
product()
{
    must "./$who" matmul --n "$(calc "int(256 + 3840 * $part)")" --json --quiet >summary
    json gflops
}
# start: seconds that a whole run of one step lives, the least of three
start()
{
    local begin
    for _ in 1 2 3; do
        begin=${EPOCHREALTIME/./}
        train softmax --batch 100 --threads 1 --steps 1
        calc "(${EPOCHREALTIME/./} - $begin) / 1e6"
    done | sort -g | head -n 1
}

# turn WHO FUNCTION ARGUMENTS...: its figure goes into the file figure.WHO
turn()
{
    local who=$1
    shift
    XDG_CACHE_HOME=$tmp/$who.cache "$@" >>"figure.$who" || exit
}

# quartile FILE WHICH: the lower (1) or the upper (3)
quartile()
{
    sort -g "$1" | awk -v which="$2" '{ v[NR] = $1 } END {
        at = 1 + (NR - 1) * which / 4
        low = int(at)
        print v[low] + (at - low) * ((low < NR ? v[low + 1] : v[low]) - v[low]) }'
}

# short FILE: its median, with as many digits as are worth showing
short()
{
    awk -v v="$(middle "$1")" 'BEGIN { printf(v < 100 ? "%.3f" : "%.0f", v) }'
}

# verdict LOW HIGH BETTER: of the ratio's quartiles, where "higher" or "lower" is better
verdict()
{
    awk -v low="$1" -v high="$2" -v better="$3" -v rounds="$rounds" 'BEGIN {
        more = rounds >= 4 && low > 1.03
        less = rounds >= 4 && high < 0.97
        print (!more && !less ? "-" : more == (better == "higher") ? "better" : "**worse**") }'
}

{
    machine
    echo "This is that yoke, other is $other; $rounds rounds."
    head_ workload this: other: unit "this / other:" quartiles verdict
    while IFS='|' read -r name unit better words; do
        [[ $name =~ $only ]] || continue
        read -ra command <<<"$words"
        rm -f figure.*
        for ((round = 0; round <= rounds; round++)); do
            pair=(this other)
            [ $((round % 2)) = 0 ] || pair=(other this)
            for who in "${pair[@]}"; do
                turn "$who" "${command[@]}" </dev/null
            done
            [ "$round" != 0 ] || rm -f figure.* # it warmed up
        done
        middle=$(ratio figure.this figure.other)
        low=$(quartile figure.this.ratio 1) high=$(quartile figure.this.ratio 3)
        row "$name" "$(short figure.this)" "$(short figure.other)" "$unit" "$(digits 3 "$middle")" \
            "$(digits 3 "$low" "$high" | sed 's/ / to /')" "$(verdict "$low" "$high" "$better")"
    done <<<"$workloads"
} | tables
