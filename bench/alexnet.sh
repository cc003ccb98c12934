#!/bin/bash
# alexnet.sh - AlexNet's training step, 2 threads, against oneDNN's bare primitives.
#
#   BUILD=build bench/alexnet.sh [ROUNDS]      5 rounds unless said otherwise
#   BATCH=4 STEPS=2 in the environment         another batch than 64, fewer steps a round than 20
#
# The bare primitives are every convolution, pooling and product of the step, forward and backward,
# each alone with the layouts it likes best (see alexnet.c). A round takes the best of three passes
# over them, in turns with the model's step in the same program, and then runs yoke's program on
# made-up images: there the images are made and loaded, gradients applied, and all steps count, the
# first too. Ratios are bare / yoke, medians of the rounds; the floor is for a batch of 64. Exit
# status 0 unless something is broken.
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} batch=${BATCH:-64} steps=${STEPS:-20}
number ROUNDS "$rounds" 1 99
number BATCH "$batch" 1 999
number STEPS "$steps" 1 999
cd "$tmp" || exit 1

for ((round = 0; round < rounds; round++)); do
    must "$build/bench/alexnet" "$batch" 2 3 "$isa" >pass
    read -r _ _ bare model _ <pass
    echo "$bare" >>bare
    echo "$model" >>model
    rm -rf run
    must "$yoke" train alexnet --batch "$batch" --threads 2 --steps "$steps" \
        --checkpoint-every "$steps" --isa "$isa" --run run --json --quiet >summary
    calc "1000 / $(json steps_per_second)" >>whole
    for phase in input compute push wait; do
        calc "1000 * $(json "$phase" | head -n 1) / $steps" >>"phase.$phase"
    done
    calc "$(json peak_rss_bytes) / 1e6" >>memory
done

floor=0.9
[ "$batch" = 64 ] || floor=-
{
    echo "AlexNet, batch $batch, 2 threads, against oneDNN's primitives alone; medians of" \
        "$rounds rounds, peak memory $(figure 0 memory) MB."
    head_ "" "ms a step:" ratio: floor
    row "bare primitives" "$(figure 1 bare)" "" ""
    row "yoke, the model's step" "$(figure 1 model)" "$(digits 3 "$(ratio bare model)")" ""
    row "yoke, the program, $steps steps" "$(figure 1 whole)" "$(digits 3 "$(ratio bare whole)")" \
        "$(judge "$(ratio bare whole)" "$floor")"
    for phase in input compute push wait; do
        row "of that $phase" "$(figure 1 "phase.$phase")" "" ""
    done
} | tables
