#!/usr/bin/env bash
# Which block size is fastest? Sweeps the block's width over multiples of a warp, with as many blocks as keep the number
# of threads.
#     examples/sweep-blocks.sh RECORDING.json [INSTANCE] [OPTIONS OF mneme-replay sweep…]
# Prints a table on standard output: block, median ns, speed-up over the recorded block; the fastest first. Needs jq.
set -euo pipefail
# shellcheck source=examples/sweep.sh
source "$(dirname "$0")/sweep.sh"

configurations() {
    jq -nc --argjson recorded "$recorded" '
        ($recorded.grid.x * $recorded.block.x) as $threads
        | $recorded, (range(32; 1025; 32) as $width | {block: {x: $width}, grid: {x: (($threads / $width) | ceil)}})
        | .iterations = 5 | .warmup = 2'
}
configurations | sweep - | table '"\(.block.x)x\(.block.y)x\(.block.z)"'
