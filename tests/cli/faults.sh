#!/bin/bash
# faults.sh - a user meets broken files, full disks and missing permissions, and gets one sentence
# and the right exit code (3 for data and checkpoints, 1 for the machine); files that were good
# before are good afterwards. Disks are small tmpfs in a mount namespace of the script's own, so
# that nothing stays mounted.
# san-1: all of it
if [ "$(id -u)" = 0 ] && [ -z "${OWN_MOUNTS:-}" ] && unshare -m true 2>/dev/null; then
    OWN_MOUNTS=yes exec unshare -m --propagation private bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
need_mnist
mnist=${XDG_CACHE_HOME:-$HOME/.cache}/yoke/mnist
endless=100000000
here=$PWD

# ---- data ----

# break_ FILE HOW: FILE, a good IDX file, is broken
break_()
{
    local size
    size=$(stat -c %s "$1")
    case $2 in
    missing) rm "$1" ;;
    empty) : >"$1" ;;
    "of one byte") truncate -s 1 "$1" ;;
    "cut in its header") truncate -s 7 "$1" ;;
    truncated) truncate -s $((size - 1)) "$1" ;;
    "with a tail") echo more >>"$1" ;;
    "with dimensions of 4294967295") { head -c 4 "$1" && printf '\xff%.0s' {1..12} &&
        tail -c +17 "$1"; } >broken && mv broken "$1" ;;
    "with sizes that multiply to nothing") # 2^31 * 2 * 2 * 2^31...: more than 64 bits hold
        { printf '\0\0\10\4' && big_endian $((1 << 31)) $((1 << 31)) 2 2 && tail -c +17 "$1"; } \
            >broken && mv broken "$1" ;;
    "of no rows") { head -c 4 "$1" && big_endian 0 && tail -c +9 "$1" | head -c 8; } >broken &&
        mv broken "$1" ;;
    "with another magic") printf '\1' | dd of="$1" bs=1 seek=0 conv=notrunc status=none ;;
    "of floats") printf '\15' | dd of="$1" bs=1 seek=2 conv=notrunc status=none ;;
    "that is noise") head -c "$size" /dev/urandom >"$1" ;;
    "that is text") echo "hello, world" >"$1" ;;
    "that is a folder") rm "$1" && mkdir "$1" ;;
    "that is a cut gzip") gzip -c "$1" >broken && truncate -s -20 broken && mv broken "$1" ;;
    "that is a gzip of nothing") gzip -c </dev/null >"$1" ;;
    "that is a broken gzip") gzip -c "$1" >broken && printf 'XXXX' | dd of=broken bs=1 seek=30 \
        conv=notrunc status=none && mv broken "$1" ;;
    esac
}

for how in missing empty "of one byte" "cut in its header" truncated "with a tail" \
    "with dimensions of 4294967295" "with sizes that multiply to nothing" "of no rows" \
    "with another magic" "of floats" "that is noise" "that is text" "that is a folder" \
    "that is a cut gzip" "that is a gzip of nothing" "that is a broken gzip"; do
    case_ "images $how"
    rm -rf digits
    tiny digits train 200 4 4 3
    break_ digits/train-images-idx3-ubyte "$how"
    expect_error 3 "digits" yoke train softmax --data digits --batch 10
    expect_error 3 "digits" yoke data info digits/train-images-idx3-ubyte
    expect_no_runs
done

for how in missing empty "of one byte" "cut in its header" truncated "with a tail" "of no rows" \
    "with another magic" "that is noise"; do
    case_ "labels $how"
    rm -rf digits
    tiny digits train 200 4 4 3
    break_ digits/train-labels-idx1-ubyte "$how"
    expect_error 3 "digits" yoke train softmax --data digits --batch 10
    expect_no_runs
done

case_ "counts that do not match are both told"
tiny digits train 200 4 4 3
tiny fewer train 190 4 4 3
cp fewer/train-labels-idx1-ubyte digits/
expect_error 3 "200.*190|190.*200" yoke train softmax --data digits --batch 10

case_ "images and labels swapped, a folder without data, a file that is none, a device"
tiny digits train 200 4 4 3
mv digits/train-images-idx3-ubyte digits/x
mv digits/train-labels-idx1-ubyte digits/train-images-idx3-ubyte
mv digits/x digits/train-labels-idx1-ubyte
expect_error 3 "digits" yoke train softmax --data digits --batch 10
mkdir nothing
expect_error 3 "nothing" yoke train softmax --data nothing
expect_error 3 "no such file" yoke train softmax --data absent
expect_error 3 "lib.sh" yoke train softmax --data "$top/tests/lib.sh"
expect_error 3 "/dev/" yoke train softmax --data /dev/null
expect_error 3 "/dev/" yoke train softmax --data /dev/zero
expect_no_runs

case_ "broken test data is refused before training starts"
rm -rf digits
tiny digits train 200 4 4 3
tiny digits t10k 20 4 4 3
break_ digits/t10k-images-idx3-ubyte truncated
expect_error 3 "t10k-images" yoke train softmax --data digits --batch 10
break_ digits/t10k-images-idx3-ubyte missing
expect_error 3 "t10k" yoke train softmax --data digits --batch 10
expect_no_runs

# ---- checkpoints and configuration ----

expect_exit 0 yoke train softmax --data mnist --steps 100 --run good --quiet
whole=$(newest_of good)
size=$(stat -c %s "$whole")

little_endian() # N: eight bytes
{
    local i
    for ((i = 0; i < 64; i += 8)); do
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x $(($1 >> i & 255)))"
    done
}

foreign() # JSON [BYTES]: a safetensors file with this header and so many zeros
{
    little_endian ${#1} && printf %s "$1" && head -c "${2:-0}" /dev/zero
}

for how in empty "of seven bytes" truncated "with a tail" "that is noise" "of zeros" \
    "with a header of 2^64-1 bytes" "with a header of 2^40 bytes" "with a header that is no JSON" \
    "that another program wrote" "whose shapes lie" "with a thousand brackets" \
    "with a flipped byte"; do
    case_ "a checkpoint $how is refused by eval, predict, export and resume"
    case $how in
    empty) : >bad.safetensors ;;
    "of seven bytes") head -c 7 "$whole" >bad.safetensors ;;
    truncated) head -c $((size - 1)) "$whole" >bad.safetensors ;;
    "with a tail") { cat "$whole" && echo more; } >bad.safetensors ;;
    "that is noise") head -c "$size" /dev/urandom >bad.safetensors ;;
    "of zeros") head -c "$size" /dev/zero >bad.safetensors ;;
    "with a header of 2^64-1 bytes") { little_endian -1 && tail -c +9 "$whole"; } \
        >bad.safetensors ;;
    "with a header of 2^40 bytes") { little_endian $((1 << 40)) && tail -c +9 "$whole"; } \
        >bad.safetensors ;;
    "with a header that is no JSON") foreign "hello" >bad.safetensors ;;
    "that another program wrote") foreign \
        '{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}' 16 >bad.safetensors ;;
    "whose shapes lie") foreign \
        '{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}}' 16 \
        >bad.safetensors ;;
    "with a thousand brackets") foreign "{\"w\":$(printf '[%.0s' {1..5000})" >bad.safetensors ;;
    "with a flipped byte") { head -c $((size - 9)) "$whole" && printf 'Y' && tail -c 8 "$whole"; } \
        >bad.safetensors ;;
    esac
    expect_error 3 "bad.safetensors" yoke eval bad.safetensors
    expect_error 3 "bad.safetensors" yoke predict bad.safetensors
    expect_error 3 "bad.safetensors" yoke export bad.safetensors -o out.npz
    expect test ! -e out.npz
    rm -rf only
    cp -a good only
    cp bad.safetensors "$(newest_of only)"
    expect_exit 3 yoke train --resume only --steps 200
    expect_no_out
    expect test "$(grep -c '^yoke: ' "$ERR")" -le 2 # the warning, and the sentence
    expect cmp -s bad.safetensors "$(newest_of only)"
done

# forged HOW...: bad.safetensors is the good checkpoint, changed, with checksums that are right
tool forge
forged()
{
    cp "$whole" bad.safetensors
    forge bad.safetensors "$@" || fail "forge $*"
}

for value in nan -inf; do
    case_ "a model with a weight of $value is refused by eval, predict and export"
    forged value softmax.weight 4711 $value
    for args in eval predict "export --to npz -o out" "export --to onnx -o out"; do
        why="'bad.safetensors' cannot be used: tensor 'softmax.weight' has values that are infinite"
        # shellcheck disable=SC2086 # words
        expect_error 3 "$why or NaN" yoke $args bad.safetensors
        expect test ! -e out
    done
done

# Fields: the forgery, the sentence of --resume, and that of eval ("" if it is fine).
while IFS='|' read -r how resumed evaluated; do
    case_ "a checkpoint that was forged is refused: $how"
    # shellcheck disable=SC2086 # words
    forged $how
    rm -rf only
    cp -a good only
    mv bad.safetensors "$(newest_of only)"
    expect_error 3 "$resumed" timeout 60 yoke train --resume only --steps 200
    if [ -n "$evaluated" ]; then
        expect_error 3 "$evaluated" yoke eval only
    else
        expect_exit 0 yoke eval only
    fi
done <<END
meta format yoke-9|has the format 'yoke-9'|has the format 'yoke-9'
drop format|not written by yoke|not written by yoke
meta model lenet|its model is lenet, config.json says softmax|a model this yoke does not know
meta seed 2|its seed is 2, config.json says 1|
meta optimizer adam|its optimizer is adam, config.json says sgd|
meta run_id 0123456789abcdef|its run_id is 0123456789abcdef, config.json says|
meta classes 3|does not fit this run|of the model's shape
shape softmax.weight 784,10|another shape|no tensor 'softmax.weight' of the model's shape
shape softmax.weight 7840|another shape|no tensor 'softmax.weight' of the model's shape
value softmax.bias 3 nan|infinite or NaN|infinite or NaN
meta examples 18446744073709551615|does not fit this run|
meta epoch 9007199254740993|does not fit this run|
meta epoch_at 60000|does not fit this run|
meta step -5|does not fit this run|after which step
meta step abc|does not fit this run|after which step
meta step 18446744073709551615|does not fit this run|after which step
END

for sum in xxh3 xxh3_header; do
    case_ "the checksum $sum cannot be left out of a checkpoint"
    forged drop $sum
    expect_error 3 "is damaged: it lacks a checksum that yoke writes" yoke eval bad.safetensors
done

case_ "a checkpoint and a config.json without the run's id, as an older yoke wrote them, go on"
rm -rf only
cp -a good only
forged drop run_id
mv bad.safetensors "$(newest_of only)"
sed -i '/"run_id"/d; /"first_checkpoint"/d; s/\("version": "[^"]*"\),$/\1/' only/config.json
expect_exit 0 yoke train --resume only --steps 200 --quiet
expect grep -q '"run_id": "[0-9a-f]*"' only/config.json
expect_exit 0 yoke train --resume only --steps 300 --quiet

for name in config.json summary.json ranks.json metrics.jsonl log.txt \
    checkpoints/step-000000000200.safetensors; do
    case_ "a pipe in the place of $name is refused and not waited for"
    rm -rf only
    cp -a good only
    rm -f "only/$name"
    mkfifo "only/$name"
    expect_error 3 "'only/$name' is not a regular file" \
        timeout 60 yoke train --resume only --steps 300
    expect test -p "only/$name"
done

case_ "eval and export of what is no checkpoint at all"
mkdir folder
expect_error 3 "'folder' holds no checkpoint" yoke eval folder
expect_error 3 "no such file" yoke eval absent
expect_error 3 "good/config.json" yoke eval good/config.json
expect_error 3 "regular file" yoke eval /dev/zero
expect_error 3 "" yoke eval ''

while IFS='|' read -r text what; do
    case_ "a config.json $what is refused by --resume with status 3"
    rm -rf only
    cp -a good only
    printf %s "$text" >only/config.json
    expect_error 3 "config.json|model|schedule" yoke train --resume only --steps 200
    expect cmp -s "$whole" "$(newest_of only)"
done <<END
|that is empty
{"model": "softmax", "batch"|that is cut
[1, 2]|that is a list
{}|without a model
{"model": 5}|whose model is a number
{"model": "resnet", "data": "mnist"}|of a model that yoke does not know
{"model": "softmax", "batch": -4}|with a batch below zero
{"model": "softmax", "batch": [1]}|whose batch is a list
{"model": "softmax", "optimizer": "sdg"}|with an unknown optimizer
{"model": "softmax", "schedule": "steps"}|with an unknown schedule
{"model": "softmax", "data": ""}|without data
$(head -c 3000 /dev/urandom | tr -d '\0\n|')|of noise
$(printf '[%.0s' {1..5000})|of a thousand brackets
END

case_ "a config.json of a net without its text says so"
rm -rf only
cp -a good only
sed -i 's/"model": "softmax"/"model": "lenet"/' only/config.json
expect_error 3 "'only/config.json' lacks the text of its net$" yoke train --resume only --steps 200
expect test -z "$(grep '^hint' "$ERR")"

case_ "a damaged summary.json does not keep a run from going on"
rm -rf only
cp -a good only
echo '{"stop_reason"' >only/summary.json
expect_exit 0 yoke train --resume only --steps 200 --quiet
expect_same "$(json global_steps only/summary.json)" 200

case_ "a metrics.jsonl with a cut line loses that line only"
rm -rf only
cp -a good only
printf '{"step":100,"sec' >>only/metrics.jsonl
expect_exit 0 yoke train --resume only --steps 300 --quiet
expect_same "$(grep -oE '^\{"step":[0-9]+.*\}$' only/metrics.jsonl | grep -oE '"step":[0-9]+' |
    tr '\n' ' ')" '"step":100 "step":200 "step":300 '
expect_same "$(wc -l <only/metrics.jsonl)" 3

# ---- the machine ----

case_ "results that cannot be written are no results"
for args in "--version" "help train" "help" "help --man" "data info mnist" "eval good" \
    "eval good --json" "predict good" \
    "train --resume good --quiet" "train softmax --steps 5 --quiet" \
    "train softmax --steps 5 --quiet --json"; do
    # shellcheck disable=SC2086
    expect_error 1 "standard output: no space left" to_full yoke $args
done
rm -rf runs

case_ "closed streams do not end up in the run's files"
bash -c 'yoke train softmax --steps 100 --run shut <&- >&- 2>&-' >"$OUT" 2>"$ERR" || true
bash -c "yoke train --resume shut --steps $endless <&- >&- 2>&- &
    sleep 1; kill -INT \$!; wait \$!" >"$OUT" 2>"$ERR" || true
expect test -z "$(grep -v '^{"step":.*}$' shut/metrics.jsonl)"
expect_exit 0 yoke eval shut

case_ "a path may be long, and one that is too long is told so"
long=$(printf 'x%.0s' {1..200})
deep=$long/$long/$long/$long
expect_exit 0 yoke train softmax --steps 10 --run "$deep" --quiet
expect_exit 0 yoke train --resume "$deep" --steps 20 --quiet
expect_exit 0 yoke eval "$deep"
tiny "$deep/digits" train 50 4 4 3
tiny "$deep/digits" t10k 20 4 4 3
expect_exit 0 yoke train softmax --data "$deep/digits" --batch 7 --epochs 1 --run far --quiet
expect_exit 0 yoke train --resume far --epochs 2 --quiet
expect_exit 0 yoke eval far
for path in "$(printf 'x%.0s' {1..300})" "$(printf 'y/%.0s' {1..3000})" \
    "$(printf 'z%.0s' {1..9000})"; do
    for args in "train softmax --steps 5 --run" "train softmax --data" "train --resume" "eval" \
        "data info" "predict good -o" "export good -o" "train softmax --config"; do
        # shellcheck disable=SC2086
        expect_exit_in "1 2 3" yoke $args "$path"
    done
done
expect_no_runs

case_ "a name with control characters cannot steer the terminal or break the sentence"
name=$(printf 'no\nsuch\033[31m\tfile')
expect_error 3 "no.such" yoke train softmax --data "$name"
expect test -z "$(tr -d '\n' <"$ERR" | grep -P '[\x00-\x1f]')"
expect_error 3 "no.such" yoke eval "$name"
expect_error 2 "no.such" yoke "$name"
expect_error 2 "no.such" yoke train "$name"
expect_error 2 "no.such" yoke train softmax "--$name"

case_ "a yoke.ini that is noise, a folder or too big"
head -c 5000 /dev/urandom >yoke.ini
expect_error 2 "yoke.ini" yoke train softmax --steps 5
printf '\377\376b\0a\0' >yoke.ini
expect_error 2 "yoke.ini" yoke train softmax --steps 5
head -c 3000000 /dev/zero | tr '\0' '\n' >yoke.ini
expect_error 2 "yoke.ini" yoke train softmax --steps 5
rm yoke.ini
mkdir yoke.ini
expect_error 2 "yoke.ini" yoke train softmax --steps 5
rmdir yoke.ini

case_ "the yoke.ini of a folder that one stands in calls no other machine"
mkdir agents
printf '#!/bin/sh\necho "$*" >>"%s/called"\nexit 255\n' "$PWD" >agents/ssh
chmod +x agents/ssh
tiny digits train 40 4 4 3
printf 'evil.example\n' >machines
for line in 'hosts = evil.example' 'hostfile = machines' 'ps-hosts = evil.example' \
    'mirror = http://evil.example'; do
    printf 'batch = 10\n%s\n' "$line" >yoke.ini
    for args in "train softmax --data digits --steps 5" \
        "train softmax --data digits --dry-run" "matmul --n 10" "matmul --n 10 --dry-run" netcheck \
        "data info digits"; do
        # shellcheck disable=SC2086
        expect_error 2 "'yoke.ini' line 2: '${line%% *}' is refused in ./yoke.ini" \
            env PATH="$PWD/agents:$PATH" yoke $args
        expect_err "^hint: .*--${line%% *}.*--config"
    done
done
expect test ! -e called
expect_no_runs
expect_exit 0 yoke help train
rm yoke.ini

case_ "the user's own file, and --config, may name machines"
if command -v mpirun >/dev/null; then
    mkdir -p "$XDG_CONFIG_HOME/yoke"
    echo 'hosts = far.example' >"$XDG_CONFIG_HOME/yoke/yoke.ini"
    expect_exit 4 env PATH="$PWD/agents:$PATH" yoke train softmax --data digits --steps 5
    expect grep -q far called
    rm "$XDG_CONFIG_HOME/yoke/yoke.ini" called
    echo 'hosts = other.example' >mine.ini
    expect_exit 4 env PATH="$PWD/agents:$PATH" yoke train softmax --data digits --steps 5 \
        --config mine.ini
    expect grep -q other called
else
    skip "needs mpirun"
fi
expect_no_runs

case_ "a named pipe where a file should be does not hang"
mkfifo pipe
for args in "train softmax --steps 5 --config" "train softmax --data" "eval" "data info"; do
    # shellcheck disable=SC2086
    expect_exit_in "2 3" timeout 20 yoke $args pipe
done

if [ "$(id -u)" != 0 ]; then
    skip_all "needs root for other users and small disks"
fi

# somebody COMMAND...: as a user who is not root and owns only ./his
somebody()
{
    setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent \
        XDG_CACHE_HOME="$here/his/cache" "$@"
}
cp "$(command -v yoke)" "$tmp/yoke" # its folder may be root's alone
chmod 755 "$tmp" "$here" "$tmp/yoke"
mkdir his mine
chown 65534:65534 his
rm -rf digits
tiny digits train 200 4 4 3

case_ "folders and files that may not be read are named, with status 3"
chmod 000 digits
expect_error 3 "digits.*permission denied" somebody "$tmp/yoke" train softmax --data digits \
    --batch 10 --run his/a
chmod 755 digits
chmod 000 digits/train-labels-idx1-ubyte
expect_error 3 "train-labels-idx1-ubyte.*permission denied" somebody "$tmp/yoke" train softmax \
    --data digits --batch 10 --run his/a
chmod 644 digits/train-labels-idx1-ubyte
mkdir -m 700 locked
cp "$whole" locked/x.safetensors
expect_error 3 "locked/x.safetensors.*permission denied" somebody "$tmp/yoke" eval \
    locked/x.safetensors
expect test ! -e his/a

case_ "folders that may not be written are named, with status 1"
expect_error 1 "mine/a.*permission denied" somebody "$tmp/yoke" train softmax --data digits \
    --batch 10 --run mine/a
expect_error 1 "permission denied" somebody "$tmp/yoke" train softmax --data digits --batch 10
expect_error 1 "mine/a.npz.*permission denied" somebody "$tmp/yoke" export good -o mine/a.npz
expect_exit 0 somebody "$tmp/yoke" train softmax --data digits --batch 10 --steps 20 --run his/a \
    --quiet
chown -R 0:0 his/a
expect_exit_in "1 3" somebody "$tmp/yoke" train --resume his/a --steps 40
expect_one_sentence
expect_same "$(checkpoints_of his/a)" step-000000000020.safetensors

case_ "a cache that cannot be made or written is named"
expect_error 1 "/nonexistent.*permission denied|cannot.*/nonexistent" \
    somebody env XDG_CACHE_HOME=/nonexistent "$tmp/yoke" data fetch mnist
expect_exit_in "1 2 3" env -u HOME -u XDG_CACHE_HOME yoke data fetch mnist
expect_one_sentence

# disk SIZE: a small disk, mounted on ./disk
disk()
{
    umount disk 2>/dev/null
    mkdir -p disk
    mount -t tmpfs -o "size=$1" none disk 2>/dev/null
}
trap 'status=$?; umount "$here/disk" 2>/dev/null; (exit $status); at_exit' EXIT
if [ -z "${OWN_MOUNTS:-}" ] || ! disk 64k; then
    skip_all "cannot mount a small disk here"
fi

# space_again RUN ARGS...: RUN, which a full disk ended, ends like an undisturbed one once there is
# space
space_again()
{
    local run=$1 end
    shift
    [ -z "$(find "$run" -name '*.tmp*')" ] || fail "a temporary file was left"
    expect_exit 0 yoke eval "$run"
    end=$(($(checkpoints_of "$run" | tail -n 1 | tr -dc 0-9 | sed 's/^0*//') + 333))
    mount -o remount,size=20m disk
    expect_exit 0 yoke train --resume "$run" --steps $end --quiet
    rm -rf undisturbed
    expect_exit 0 yoke train softmax "$@" --steps $end --run undisturbed --quiet
    expect_same "$(params_of "$run")" "$(params_of undisturbed)"
    expect_same "$(json test_loss "$run/summary.json")" "$(json test_loss undisturbed/summary.json)"
}

case_ "a disk that fills while metrics are written"
disk 200k
expect_error 1 "disk/run/.*: no space left on device" yoke train softmax --steps $endless \
    --checkpoint-every 200 --keep 1 --eval-every 10 --run disk/run --quiet
expect_err "^hint: .*--resume disk/run"
space_again disk/run --eval-every 10

case_ "a disk that fills while a checkpoint is written"
disk 320k # a checkpoint of adam has 95 kB
expect_error 1 "disk/run/checkpoints/.*: no space left on device" \
    yoke train softmax --optimizer adam --steps $endless --checkpoint-every 100 --keep 9 \
    --eval-every $endless --run disk/run --quiet
expect test "$(checkpoints_of disk/run | wc -l)" -ge 2
space_again disk/run --optimizer adam

case_ "a disk that fills while the last checkpoint is written"
disk 80k
expect_error 1 "no space left on device" yoke train softmax --optimizer adam --steps 100 \
    --run disk/run
mount -o remount,size=20m disk
expect_exit 0 yoke train --resume disk/run --quiet
expect_same "$(json global_steps disk/run/summary.json)" 100

case_ "a full disk before the first step"
disk 16k
head -c 100000 /dev/zero >disk/filler 2>/dev/null
expect_error 1 "disk/run.*no space left on device" yoke train softmax --steps 100 --run disk/run

case_ "a disk without inodes"
disk 1m,nr_inodes=6
expect_error 1 "no space left on device" yoke train softmax --steps 100 --run disk/run

case_ "a file that cannot be replaced because the disk is full stays as it was"
disk 100k
expect_exit 0 yoke export good -o disk/model.npz
before=$(sha256sum disk/model.npz)
head -c 100000 /dev/zero >disk/filler 2>/dev/null
expect_error 1 "disk/model.npz.*no space left" yoke export good -o disk/model.npz
expect_error 1 "disk/p.csv.*no space left" yoke predict good -o disk/p.csv
expect_same "$(sha256sum disk/model.npz)" "$before"
expect_same "$(ls disk)" "$(printf 'filler\nmodel.npz')"

case_ "a disk that may only be read"
disk 1m
expect_exit 0 yoke train softmax --steps 100 --run disk/run --quiet
mount -o remount,ro disk
expect_error 1 "disk/other.*read-only file system" yoke train softmax --steps 100 --run disk/other
expect_error 1 "read-only file system" yoke train --resume disk/run --steps 200
expect_exit 0 yoke train --resume disk/run
expect_exit 0 yoke eval disk/run
expect_exit 0 yoke eval disk/run/checkpoints/step-000000000100.safetensors

case_ "a cache on a full disk: one sentence, nothing half-done, and all is well when there is space"
mkdir mirror
for name in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte \
    t10k-labels-idx1-ubyte; do
    gzip -1 -n <"$mnist/$name" >"mirror/$name.gz"
done
disk 8m
expect_exit 1 env XDG_CACHE_HOME="$PWD/disk" yoke data fetch mnist --mirror "file://$PWD/mirror" \
    --quiet
expect_one_sentence
expect_err "no space left on device|has room for"
expect test -z "$(find disk -name '*train-images*')"
mount -o remount,size=200m disk
expect_exit 0 env XDG_CACHE_HOME="$PWD/disk" yoke data fetch mnist --mirror "file://$PWD/mirror" \
    --quiet
expect cmp -s disk/yoke/mnist/train-images-idx3-ubyte "$mnist/train-images-idx3-ubyte"
