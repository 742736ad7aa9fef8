#!/usr/bin/env bash
# Which passes matter? Sweeps the standard pipelines, alone and with the recorded launch folded into the code.
#     examples/sweep-pipelines.sh RECORDING.json [INSTANCE] [OPTIONS OF mneme-replay sweep…]
# Prints a table on standard output: pipeline, median ns, speed-up over the recorded configuration; the fastest first.
# Needs jq.
set -euo pipefail
# shellcheck source=examples/sweep.sh
source "$(dirname "$0")/sweep.sh"

configurations() {
    jq -nc --argjson recorded "$recorded" '
        $recorded,
        ({passes: ("default<O0>", "default<O1>", "default<O2>", "default<O3>", "default<Os>", "default<Oz>",
                   "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)")}
         + ({}, {specialize: true, specialize_dims: true}))
        | .iterations = 5 | .warmup = 2'
}
configurations | sweep - | table '.passes + (if .specialize == true then " specialised" else "" end)'
