#!/usr/bin/env bash
# Plants a fault in a pipeline and has mneme-bisect find it; then prints how a history would be bisected.
#     scripts/bisect-example.sh RECORDING.json [INSTANCE] [OPTIONS OF mneme-bisect…]
# The finding is printed as JSON on standard output and its files are left in a temporary folder. Needs jq.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ -n "${MNEME_HOME:-}" ]; then PATH=$MNEME_HOME/bin:$PATH; else PATH=$root/target/release:$PATH; fi
[ $# -ge 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 64; }
for program in jq mneme-bisect; do
    command -v "$program" >/dev/null || { echo "$0: $program is missing; scripts/setup and cargo build --release get it" >&2; exit 69; }
done

database=$1
shift
instance=()
case ${1:-} in '' | -*) ;; *) instance=(-rid "$1"); shift ;; esac

# The store is lost after default<O1>, and default<O3> still has a long way to go.
pipeline='default<O1>,function(mneme-fault<lost-store>),default<O3>'
folder=$(mktemp -d)
status=0
found=$(mneme-bisect -rdb "$database" "${instance[@]}" "$pipeline" --json -o "$folder" "$@") || status=$?
[ "$status" -eq 1 ] || { echo "$0: status $status in place of 1, an IR pass" >&2; exit 1; }
jq '{verdict, pass, files: .files.folder, instructions: .files.instructions}' <<<"$found"
jq -e '.pass.pass == "mneme-fault"' <<<"$found" >/dev/null

cat >&2 <<END

To find the commit of a program that broke its kernel, let git run a script that builds the program's kernel and bisects it:
statuses from 64 on are errors of the command itself, which git shall skip.

    git bisect start BAD GOOD
    git bisect run sh -c 'mneme-bisect -rdb $database --source src/kernel.cu --reduce 0; s=\$?; [ \$s -lt 64 ] && exit \$s; exit 125'
END
