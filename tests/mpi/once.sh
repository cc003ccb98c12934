#!/bin/bash
# once.sh - jobs of several processes are killed as a whole and resumed, twice, and every row is
# still trained once an epoch. Row i has feature i alone, so that weight i moves when row i is
# trained, and at no other time. The rate is 2^-39: every score stays so close to 0 that every slope
# is 1/2, and a move is 2^-40 over the rows of a step. So a weight says how often it has moved: once
# an epoch, for every row.
if [ "$(id -u)" = 0 ] && [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
    OWN_SHM=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
# shellcheck source=../tools/job.sh
. "$top/tests/tools/job.sh"
private_cache
rows=240
rate=1.8189894035458565e-12
plain=(--threads 1 --batch 1 --optimizer sgd --lr "$rate")

# The rows as text, and as images of 16x16 with one bright pixel.
for ((i = 0; i < rows; i++)); do
    echo "$((i % 2)) $i:1"
done >rows.libsvm
mkdir images
{
    big_endian $((0x803)) $rows 16 16
    for ((i = 0; i < rows; i++)); do
        head -c "$i" /dev/zero
        printf '\377'
        head -c $((255 - i)) /dev/zero
    done
} >images/train-images-idx3-ubyte
{
    big_endian $((0x801)) $rows
    for ((i = 0; i < rows; i += 2)); do
        printf '\0\1'
    done
} >images/train-labels-idx1-ubyte
for part in images-idx3 labels-idx1; do
    cp images/train-$part-ubyte images/t10k-$part-ubyte
done

# "moves rows" for every number of moves that a row of RUN has made, where a step is SIZE rows
moves() # MODEL RUN SIZE
{
    local first=0
    [ "$1" = logreg ] || first=256 # the weights of class 1
    expect_exit 0 yoke export "$2" --to text -o "$2.txt"
    awk -F: -v rows=$rows -v first=$first -v move="$(awk "BEGIN { print $rate / 2 / $3 }")" '
        $1 ~ /\.weight$/ { w[$2 - first] = $3 }
        END {
            for (i = 0; i < rows; i++) {
                n = (i % 2 ? w[i] : -w[i]) / move
                k = int(n + 0.5)
                if (n - k > 0.1 || k - n > 0.1) { print "weight " i " is " w[i]; exit }
                count[k]++
            }
            for (k in count) print k, count[k]
        }' "$2.txt"
}

steps_of() # RUN: the step of its newest checkpoint
{
    checkpoints_of "$1" | tail -n 1 | tr -dc 0-9 | sed 's/^0*//'
}

has_moved() # RUN STEP: it has a checkpoint of a later step
{
    local names=("$1"/checkpoints/*.safetensors)
    local last=${names[-1]##*step-}
    [ "$((10#${last%.safetensors}))" -gt "$2" ]
}

# Killed, resumed, killed again, and resumed to the end of the epoch after the next.
twice() # NAME MODEL SIZE ARGS...
{
    local name=$1 model=$2 size=$3 step epochs
    shift 3
    local data=rows.libsvm
    [ "$model" = logreg ] || data=images
    begin_job yoke train "$model" --data $data --run "$name" --quiet "${plain[@]}" \
        --epochs 1000000 --eval-every 1000000 --checkpoint-every 7 "$@"
    await "$patience" has_checkpoint "$name" || fail "no checkpoint of '$name' within $patience s"
    kill_processes
    ended_with 137 10
    await 5 no_processes || fail "processes are left"
    step=$(steps_of "$name")
    begin_job yoke train --resume "$name" --quiet "$@"
    await "$patience" has_moved "$name" $((step + 100)) || fail "resumed, '$name' does not get on"
    kill_processes
    ended_with 137 10
    await 5 no_processes || fail "processes are left"
    step=$(steps_of "$name")
    epochs=$((step * size / rows + 2))
    expect_exit 0 yoke train --resume "$name" --epochs $epochs --quiet "$@"
    expect_same "$(moves "$model" "$name" "$size")" "$epochs $rows"
    expect_same "$(of examples "$name")" $((epochs * rows))
    expect_nothing_left 2
}

case_ "the count itself: one process, and a row that is left out"
expect_exit 0 yoke train logreg --data rows.libsvm --run alone --quiet "${plain[@]}" --epochs 3
expect_same "$(moves logreg alone 1)" "3 $rows"
expect_exit 0 yoke train --resume alone --steps $((3 * rows + 1)) --quiet
expect_same "$(moves logreg alone 1 | sort | tr '\n' ' ')" "3 $((rows - 1)) 4 1 "

while read -r name model size args; do
    case_ "$name, $model, $args: all are killed twice, and every row is trained once an epoch"
    read -ra words <<<"--hosts localhost:$args"
    twice "$name-$model" "$model" "$size" "${words[@]}"
done <<'END'
async logreg 1 3 --mode async --ps 2
async softmax 1 3 --mode async --ps 3
ssp logreg 1 3 --mode ssp --staleness 1 --ps 3
ssp softmax 1 3 --mode ssp --staleness 1 --ps 2
backup logreg 2 3 --mode sync --backup 1 --ps 2
backup softmax 2 4 --mode sync --backup 2 --ps 3
END
