# Shared by the sweep-*.sh examples: source it.
# shellcheck shell=bash
# shellcheck source=examples/example.sh
source "$(dirname "${BASH_SOURCE[0]}")/example.sh"

# Replays configurations, one JSON object a line.
sweep() { mneme-replay sweep -rdb "$database" "${instance[@]}" "${options[@]}" "$@"; }

# The configuration that repeats the recorded launch. What is wrong with the recording is said here, and nothing else.
once='{"iterations": 1, "warmup": 0}'
recorded=$(sweep - <<<"$once" 2>/dev/null) || { status=$?; sweep - <<<"$once"; exit "$status"; }
recorded=$(jq -c '."Replay-config" | del(.iterations, .warmup)' <<<"$recorded")

# Of results, the configuration with the least median time.
best() {
    jq -sce 'map(select(.Result.verified)) | min_by(.Result.exec_time[.Result.warmup:] | sort | .[length / 2 | floor])."Replay-config"'
}

# Results as a table: what the filter $1 makes of a configuration, median ns, speed-up over line 1, the recorded
# configuration.
table() {
    jq -sr "def median: sort | .[length / 2 | floor];
        def time: .Result.exec_time[.Result.warmup:] | median;
        (map(select(.id == 1 and .Result.verified)) | first | time) as \$base
        | map(select(.Result.verified)) | unique_by(.\"Replay-config\") | sort_by(time)[]
        | [(.\"Replay-config\" | $1), time, (\$base / time * 1000 | round / 1000)] | @tsv"
}
