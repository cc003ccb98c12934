#!/bin/bash
# images.sh - training on photos in class folders, CIFAR-10 files and made-up images: files are
# found and described, results do not depend on the threads that decode, and damaged files are
# refused.
# san-1: all of it
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../tools/helpers.sh
. "$top/tests/tools/helpers.sh"
tool photo

# photos FOLDER COUNT: two classes that can be told by their colour, in all sizes
photos()
{
    local i
    mkdir -p "$1/blue" "$1/red"
    for ((i = 0; i < $2; i++)); do
        photo "$1/red/$i.jpg" $((30 + 3 * i)) 50 $((10 + i))
        photo "$1/blue/$i.jpg" 50 $((30 + 2 * i)) $((180 + i))
    done
}
photos own/train 12
photos own/test 5
touch own/train/red/notes.txt own/test/blue/b.png
cat >small.net <<'END'
net small
input 24x24x3
conv 4 5x5 stride 2
relu
flatten
dense 2
softmax
train optimizer sgd lr 0.05 batch 8 epochs 3
END

case_ "data info tells parts, classes, sizes and what was left out"
expect_exit 0 yoke data info own
expect_out '^own: 34 labelled images, 2 classes, .* made when they are needed$'
expect_out '^  train +24 rows of '
expect_out '^  train  JPEG files of 30x30 to 63x52, 0 of them grey, .*; 1 other files left out$'
expect_out '^  test   JPEG files of .*; 1 other files left out$'
expect_out '^  classes are 0 blue, 1 red$'
expect_out '^ +1 +12  50.0 % +5  50.0 %$'
expect_no_err

case_ "a net trains on photos that are brought to its size, and eval does the same to them"
expect_exit 0 yoke train small.net --data own --epochs 10 --run seen --quiet --json
loss=$(json test_loss)
expect awk "BEGIN { exit !($(json test_accuracy) == 1) }"
expect_exit 0 yoke eval seen --json
expect_same "$(json examples) $(json test_loss)" "10 $loss"
cp -r own/test others
expect_exit 0 yoke eval seen --data others --json
expect_same "$(json test_loss)" "$loss"

case_ "softmax takes photos too, all of the size of the first"
expect_exit 0 yoke train softmax --data own --batch 8 --epochs 20 --lr 0.1 --quiet --json
expect awk "BEGIN { exit !($(json test_accuracy) == 1) }"

case_ "crops and flips are the same for any number of workers, and --augment chooses them"
for workers in 1 2 3; do
    expect_exit 0 yoke train small.net --data own --global-batch 8 --shards 6 --workers "$workers" \
        --threads 1 --run "w$workers" --quiet
    expect_same "$(params_of "w$workers")" "$(params_of w1)"
done
for what in none crop flip; do
    expect_exit 0 yoke train small.net --data own --global-batch 8 --shards 6 --threads 1 \
        --augment "$what" --run "a-$what" --quiet
done
[ "$(for run in w1 a-none a-crop a-flip; do params_of $run; done | sort -u | wc -l)" = 4 ] ||
    fail "two ways to augment give the same"

case_ "a resumed run sees the crops and flips that it would have seen"
expect_exit 0 yoke train small.net --data own --global-batch 8 --shards 6 --threads 1 --steps 4 \
    --run parted --quiet
expect_exit 0 yoke train --resume parted --steps 9 --quiet
expect_same "$(params_of parted)" "$(params_of w1)"

case_ "--holdout makes a test part of one folder, and eval finds the same one"
expect_exit 0 yoke train small.net --data own/train --holdout 0.25 --run held --quiet --json
loss=$(json test_loss)
expect_exit 0 yoke eval held --json
expect_same "$(json examples) $(json test_loss)" "6 $loss"
expect_error 2 "has a test part of its own" yoke train small.net --data own --holdout 0.25
expect_error 2 "exclude each other" yoke train small.net --data own/train --holdout 0.25 \
    --test-data own/test
expect_error 2 "holdout means nothing to 'fake:24x24x3:2'" \
    yoke train small.net --data fake:24x24x3:2 --holdout 0.25
expect_error 2 "is less than one; expected at least 0.0417" yoke train small.net --data own/train \
    --holdout 0.04
expect_exit 0 yoke train small.net --data own/train --holdout 0.0417 --quiet

case_ "labels are those of the training, whatever folders eval, predict and --test-data are given"
mkdir one more
cp -r own/test/red one
cp -r own/test/blue own/test/red more
cp -r more/red more/green
for verb in eval predict; do
    expect_exit 0 yoke $verb seen --data one
    expect_error 3 "'more' has a class 'green' that was not trained" yoke $verb seen --data more
    expect_err 'the classes that were trained are blue, red'
done
expect_exit 0 yoke eval seen --data one --json
expect_same "$(json examples) $(json test_accuracy)" "5 1.0"
# a checkpoint without its run knows the classes, too
expect_exit 0 yoke eval seen/checkpoints/*.safetensors --data one --json
expect_same "$(json test_accuracy)" "1.0"
expect_exit 0 yoke predict seen --data one
expect_out '^4,1,'
expect_exit 0 yoke train small.net --data own/train --test-data one --epochs 10 --quiet --json
expect_same "$(json test_accuracy)" "1.0"
expect_error 3 "'more' has a class 'green' that was not trained" \
    yoke train small.net --data own/train --test-data more

case_ "a class that is called otherwise is other data"
cp -r own other
expect_exit 0 yoke train small.net --data other --steps 4 --run renamed --quiet
mv other/train/red other/train/rot
mv other/test/red other/test/rot
expect_error 3 "has changed since" yoke train --resume renamed --steps 9
expect_error 3 "'other/test' has a class 'rot' that was not trained" yoke eval renamed --data other
mkdir -p latin/a $'latin/b\xe9'
cp own/train/red/* latin/a
cp own/train/blue/* $'latin/b\xe9'
expect_error 3 "a class folder of 'latin' has a name that is not valid UTF-8" \
    yoke train small.net --data latin

case_ "--augment is refused where nothing is cropped or flipped"
expect_error 2 "augment means nothing to small on 'fake:24x24x3:2'" \
    yoke train small.net --data fake:24x24x3:2 --augment flip
expect_error 2 "augment means nothing to softmax on 'own'" yoke train softmax --data own --batch 8 \
    --augment flip
expect_error 2 "augment means nothing to logreg on 'synth-criteo:100'" \
    yoke train logreg --data synth-criteo:100 --augment flip
echo 'augment = flip' >yoke.ini # a default that a model cannot use is ignored
expect_exit 0 yoke train small.net --data fake:24x24x3:2:100 --steps 2 --quiet
rm yoke.ini

case_ "photos that are not in class folders are told where to go"
mkdir -p loose deep
cp own/train/red/*.jpg loose
cp -r own/train deep/photos
expect_error 3 "'loose' has pictures, but no class folders" yoke train small.net --data loose
expect_err 'hint: put them into one folder for each class'
expect_error 3 "'deep' has its pictures a folder too deep" yoke train small.net --data deep
expect_err "hint: if 'deep/photos' has a folder for each class, name that"
expect_error 3 "'loose/1.jpg' is one JPEG file" yoke train small.net --data loose/1.jpg
expect_err 'hint: photos lie in a folder for each class'

case_ "photos that cannot be used are named, with the reason, and end the run with status 3"
cp -r own bad
truncate -s 700 bad/train/red/7.jpg
expect_error 3 "'bad/train/red/7.jpg' is cut off" yoke train small.net --data bad --quiet
expect_error 3 "'bad/train/red/7.jpg' is cut off" yoke train small.net --data bad --workers 3 \
    --quiet
expect_error 3 "'bad/train/red/7.jpg' is cut off" yoke train softmax --data bad --batch 8 --quiet
mv bad/train/red/7.jpg bad/test/red/0.jpg
expect_error 3 "'bad/test/red/0.jpg' is cut off" yoke train small.net --data bad --quiet
rm -rf runs
echo '<html>' >bad/test/red/0.jpg
expect_error 3 "'bad/test/red/0.jpg' is not a JPEG file: it starts with 3c 68" \
    yoke train small.net --data bad
expect_error 3 "'bad/test/red/0.jpg' is not a JPEG file" yoke data info bad
rm bad/test/red/0.jpg
mkdir bad/test/green
photo bad/test/green/1.jpg 30 30 1
expect_error 3 "'bad/test' has a class 'green' that 'bad/train' does not have" \
    yoke train small.net --data bad
mkdir -p pictures/a && touch pictures/a/1.png
expect_error 3 "no JPEG file in them: 1 files are called neither" \
    yoke train small.net --data pictures
expect_no_runs

# cifar FILE RECORDS: where the bright bytes are says which label it is
cifar()
{
    local i
    for ((i = 0; i < $2; i++)); do
        # shellcheck disable=SC2059 # the format is the point
        printf "\\x0$((i % 10))"
        head -c $((i % 10 * 300)) /dev/zero
        head -c 300 /dev/zero | tr '\0' X
        head -c $((2772 - i % 10 * 300)) /dev/zero
    done >"$1"
}

case_ "CIFAR-10 files train as a folder and one by one"
mkdir ten
cifar ten/data_batch_1.bin 30
cifar ten/data_batch_2.bin 10
cifar ten/test_batch.bin 20
expect_exit 0 yoke data info ten
expect_out '^ten: 60 labelled images, 10 classes, .* in memory$'
expect_out '^  train +40 rows of 32x32x3'
expect_out '^  test +20 rows of 32x32x3'
expect_exit 0 yoke data info ten/test_batch.bin
expect_out '^test_batch.bin: 20 labelled images, 10 classes'
expect_exit 0 yoke train softmax --data ten --batch 10 --epochs 5 --lr 0.1 --quiet --json
expect awk "BEGIN { exit !($(json test_loss) < 0.5) }" # untrained it is 2.3026
expect_exit 0 yoke train softmax --data ten/data_batch_1.bin --test-data ten/test_batch.bin \
    --batch 10 --epochs 1 --quiet

case_ "damaged CIFAR-10 files are refused with status 3"
rm -rf runs
truncate -s -1 ten/data_batch_2.bin
expect_error 3 "data_batch_2.bin' is 30729 bytes long; CIFAR-10 files are a multiple of 3073" \
    yoke train softmax --data ten --batch 10
cifar ten/data_batch_2.bin 10
printf '\x0a' | dd of=ten/data_batch_2.bin bs=1 seek=6146 conv=notrunc status=none
expect_error 3 "data_batch_2.bin' has label 10 in record 2" yoke train softmax --data ten --batch 10
expect_error 3 "data_batch_2.bin' has label 10 in record 2" yoke data info ten/data_batch_2.bin
expect_no_runs

case_ "made-up images are the same for everybody, and of any shape"
expect_exit 0 yoke data info fake:224x224x3:1000
expect_out '^fake:224x224x3:1000: 100000 labelled images, 1000 classes, 15.1 GB of pixels, '
expect_out ', made when they are needed$'
expect_out '^  and 968 more, of [0-9]+ to [0-9]+ training images$'
for run in one two; do
    expect_exit 0 yoke train small.net --data fake:24x24x3:2:100 --test-data fake:24x24x3:2:30 \
        --threads 1 --run "fake-$run" --quiet
done
expect_same "$(params_of fake-one)" "$(params_of fake-two)"
expect_exit 0 yoke train small.net --data fake:24x24x3:2:100:7 --threads 1 --run fake-seven --quiet
[ "$(params_of fake-seven)" != "$(params_of fake-one)" ] ||
    fail "another seed makes the same images"
rm -rf runs
expect_error 2 "'fake:24x24:2' is not fake:HxWxC:CLASSES" yoke train small.net --data fake:24x24:2
expect_error 2 "needs all of them in memory" yoke train softmax --data fake:2000x2000x3:10:100000000
expect_no_runs

case_ "the summary tells how long steps waited for images"
expect awk "BEGIN { exit !(\"$(json image_seconds seen/summary.json)\" + 0 > 0) }"
