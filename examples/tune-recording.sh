#!/usr/bin/env bash
# Tunes every kernel of a recording, on all GPUs, and collects what Proteus needs of all of them in one file.
#     examples/tune-recording.sh RECORDING_FOLDER RESULTS [OPTIONS OF mneme-tune…]
# MNEME_TRIALS    configurations of each kernel (200)
set -euo pipefail
[ $# -ge 2 ] || { sed -n 's/^#     //p' "$0" >&2; exit 64; }
recording=$1 results=$2
shift 2
gpus=$(ls /dev 2>/dev/null | sed -n 's/^nvidia\([0-9][0-9]*\)$/\1/p' | paste -sd, -)
mneme-tune -rdb "$recording" --all-kernels --all-instances ${gpus:+--device "$gpus"} --space-preset full --sampler tpe \
    --trials "${MNEME_TRIALS:-200}" --results-dir "$results" "$@"
