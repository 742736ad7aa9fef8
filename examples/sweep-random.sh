#!/usr/bin/env bash
# A random search in two rounds: points of the whole space first, then neighbours of the best. COUNT (default 40) points
# a round.
#     COUNT=100 examples/sweep-random.sh RECORDING.json [INSTANCE] [OPTIONS OF mneme-replay sweep…]
# Prints a table on standard output: configuration, median ns, speed-up over the recorded one; the fastest first.
# Needs jq.
set -euo pipefail
# shellcheck source=examples/sweep.sh
source "$(dirname "$0")/sweep.sh"

count=${COUNT:-40}
results=$(mktemp)
trap 'rm -f "$results"' EXIT

# Four numbers from 0 on, an array a line; the same for the same SEED.
numbers() {
    awk -v seed="${SEED:-1}$1" -v count="$count" 'function number() { return int(rand() * 1e6) }
        BEGIN { srand(seed); while (count-- > 0) printf "[%d, %d, %d, %d]\n", number(), number(), number(), number() }'
}

anywhere() {
    numbers 1 | jq -nc --argjson recorded "$recorded" '
        ["default<O1>", "default<O2>", "default<O3>", "default<Os>"] as $pipelines
        | ($recorded.grid.x * $recorded.block.x) as $threads
        | $recorded, (inputs | (32 * (1 + .[0] % 32)) as $width | {
            block: {x: $width}, grid: {x: (($threads / $width) | ceil)},
            passes: $pipelines[.[1] % 4], specialize: (.[2] % 2 == 0), specialize_dims: (.[3] % 2 == 0)})
        | .iterations = 5 | .warmup = 2'
}
nearby() {
    numbers 2 | jq -nc --argjson recorded "$recorded" --argjson best "$1" '
        ($recorded.grid.x * $recorded.block.x) as $threads
        | inputs | ([32, ([1024, $best.block.x + 32 * (.[0] % 5 - 2)] | min)] | max) as $width
        | $best + {block: ($best.block + {x: $width}), grid: ($best.grid + {x: (($threads / $width) | ceil)}),
                   min_blocks_per_sm: (.[1] % 4), set_launch_bounds: (.[2] % 2 == 0), codegen_opt: (2 + .[3] % 2)}'
}
anywhere | sweep - >"$results"
nearby "$(best <"$results")" | sweep - >>"$results"
table '"\(.block.x) threads, \(.passes)"
       + (if .specialize == true then ", arguments folded" else "" end) + (if .specialize_dims then ", dimensions folded" else "" end)
       + (if .set_launch_bounds then ", \(.min_blocks_per_sm) blocks a multiprocessor" else "" end)' <"$results" | sed -n 1,11p
