# shellcheck shell=bash
# lib.sh - gives a script of bench/ the paths of programs, a folder of its own, JSON, medians and
# tables. Every script sources it first.
#
#   . "$(dirname "$0")/lib.sh"
#   head_ name rate: ratio: floor:          # a Markdown table; a colon aligns to the right
#   row "async, 2 workers" 94701 1.76 "$(judge 1.76 1.4)"
#
# A script prints its figures as Markdown, and says itself which floors are kept and which are
# missed, so a README repeats the output of a script. run.sh and peers.sh call the scripts
# through `block`, which puts the machine before the figures and keeps both in $BUILD/results (or
# $RESULTS); publish.sh brings them from there into the READMEs. ISA=avx2 (or plain) in the
# environment: yoke, oneDNN and PyTorch use no better instructions than those, on a CPU that has
# them.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
top=$PWD
build=$(cd "${BUILD:-build}" && pwd) || exit 1
export BUILD=$build
yoke=$build/yoke
tmp=$(mktemp -d "${TMPDIR:-/tmp}/yoke-bench.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$tmp/config"
export XDG_CONFIG_HOME=$tmp/config LC_ALL=C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# number NAME VALUE LEAST MOST: ends the script if VALUE is not a whole number within the limits
number()
{
    if ! [[ $2 =~ ^[0-9]{1,9}$ ]] || [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ]; then
        echo "${0##*/}: $1 is '$2', not a number from $3 to $4" >&2
        exit 2
    fi
}

# The instruction set that is measured, by the name that --isa has for it.
export ISA=${ISA:-auto} # peers/compare.py looks at it, too
case $ISA in
avx2) export DNNL_MAX_CPU_ISA=AVX2 ;;
plain) export DNNL_MAX_CPU_ISA=SSE41 ;;
esac
isa=$(cd "$tmp" &&
    "$yoke" train softmax --data fake:4x4x1:2:8 --batch 2 --isa "$ISA" --dry-run --json 2>log |
    sed -nE 's/^ *"isa": *"([a-z0-9]+)",?$/\1/p')
[ -n "$isa" ] || { cat "$tmp/log" >&2; exit 2; }

# json KEY [FILE]: the numbers under KEY in a summary, one a line
json()
{
    sed -nE "s/^ *\"$1\": *([-0-9.e+]+),?$/\1/p" "${2:-summary}"
}

# must COMMAND...: a command that has nothing to say unless it fails; its failure ends the script
must()
{
    "$@" 2>log || { cat log >&2; exit 1; }
}

# middle FILE: the median of its first column
middle()
{
    sort -g "$1" | awk '{ v[NR] = $1 }
        END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# figure N FILE: the same with N digits behind the point
figure()
{
    digits "$1" "$(middle "$2")"
}

# ratio A B: the median over the rounds of A's figure to B's of the same round
ratio()
{
    paste "$1" "$2" | awk '{ print $1 / $2 }' >"$1.ratio"
    middle "$1.ratio"
}

# calc EXPRESSION: in awk's words
calc()
{
    awk "BEGIN { print ($1) }"
}

# digits N VALUE...: each with N digits behind the point
digits()
{
    local format="%.${1}f "
    shift
    # shellcheck disable=SC2059 # the format is the point
    printf "$format" "$@" | sed 's/ $//'
}

head_()
{
    local name line='|' rule='|'
    for name; do
        case $name in
        *:) rule+='---:|' ;;
        *) rule+='---|' ;;
        esac
        line+=" ${name%:} |"
    done
    printf '\n%s\n%s\n' "$line" "$rule"
}

row()
{
    printf '|'
    printf ' %s |' "$@"
    echo
}

# judge VALUE FLOOR [most]: "FLOOR, kept" or "FLOOR, missed"; "-" where nothing is promised
judge()
{
    if [ "$2" = - ]; then
        echo -
    else
        awk -v value="$1" -v floor="$2" -v most="${3:-}" 'BEGIN {
            kept = most == "" ? value >= floor : value <= floor
            print (most == "" ? "" : "at most ") floor ", " (kept ? "kept" : "missed") }'
    fi
}

# tables: as tables read well, columns aligned and thousands apart
tables()
{
    awk -f "$top/bench/table.awk"
}

# ticks: of all cores since the start, busy and in all (the load average would still remember the
# build)
ticks()
{
    awk '/^cpu / { busy = $2 + $3 + $4 + $7 + $8 + $9; print busy, busy + $5 + $6 }' /proc/stat
}

# machine: one sentence on the date, the program, the machine, and whether others use it
machine()
{
    local cpu before after commit
    cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
    commit=$(git -C "$top" describe --always --dirty 2>/dev/null) || commit=unknown
    before=$(ticks)
    sleep 1
    after=$(ticks)
    echo "*$(date +%F), $isa, ${cpu:-$(uname -m)}, $(nproc) cores, Linux $(uname -r)," \
        "gcc $(cc -dumpfullversion), yoke $commit; others used $(echo "$before $after" | awk '{
            busy = 100 * ($3 - $1) / ($4 - $2)
            printf("%.0f %% of the processors", busy)
            if (busy > 5)
                printf(": BUSY, TRUST NO FIGURE") }').*"
    echo
}

# block NAME COMMAND...: the machine, then the command's output, shown and kept. ONLY=regex in
# the environment: some of them.
block()
{
    local name=$1 results=${RESULTS:-$build/results}
    local file=$results/$name.$isa.md
    shift
    [[ $name =~ ^(${ONLY:-.*})$ ]] || return 0
    mkdir -p "$results"
    rm -f "$file"
    echo "== $name"
    { machine && "$@"; } | tables | tee "$file.part" || { rm -f "$file.part"; exit 1; }
    mv "$file.part" "$file"
    echo
}
