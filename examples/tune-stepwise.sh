#!/usr/bin/env bash
# Tunes one kernel in steps, each of which starts from less: first the launch shape alone, exhaustively; then a sample
# of everything. The second session does not measure again what the first one has.
#     examples/tune-stepwise.sh RECORDING.json INSTANCE RESULTS [OPTIONS OF mneme-tune…]
# RESULTS gets two results folders, launch and full, each with its report.html. Prints both winners' lines.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 's/^#     //p' "$0" >&2; exit 64; }
recording=$1 instance=$2 results=$3
shift 3
tune() { mneme-tune -rdb "$recording" -rid "$instance" --cache "$results/cache.jsonl" --results-dir "$results/$1" "${@:2}" | sed -n '/^BEST/p; /^No /p'; }

mkdir -p "$results"
tune launch --space-preset launch --launch-safety aggressive --quiet "$@"
tune full --space-preset full --sampler tpe --trials "${MNEME_TRIALS:-400}" --seed 1 --quiet "$@"
echo "Reports: $results/launch/report.html $results/full/report.html" >&2
