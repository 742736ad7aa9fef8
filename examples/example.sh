# Shared by the examples that work on one recording: source it. The command line is RECORDING.json [INSTANCE]
# [OPTIONS…], and becomes database, instance and options; the comment that an example begins with is its help.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ -n "${MNEME_HOME:-}" ]; then
    PATH=$MNEME_HOME/bin:$PATH
else
    PATH=$PATH:$root/target/release:$root/target/debug
fi
[ $# -ge 1 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 64; }
for program in jq mneme-replay mneme-bisect; do
    command -v "$program" >/dev/null && continue
    echo "$0: $program is missing; scripts/setup and cargo build make it" >&2
    exit 69
done

database=$1
shift
instance=()
case ${1:-} in '' | -*) ;; *) instance=(-rid "$1"); shift ;; esac
options=("$@")
