#!/usr/bin/env bash
# Plants a fault in a pipeline and has mneme-bisect find it; then prints how a history would be bisected.
#     examples/bisect.sh RECORDING.json [INSTANCE] [OPTIONS OF mneme-bisect…]
# The finding is printed as JSON on standard output and its files are left in a temporary folder. Needs jq.
set -euo pipefail
# shellcheck source=examples/example.sh
source "$(dirname "$0")/example.sh"

# The store is lost after default<O1>, and default<O3> still has a long way to go.
pipeline='default<O1>,function(mneme-fault<lost-store>),default<O3>'
folder=$(mktemp -d)
status=0
found=$(mneme-bisect -rdb "$database" "${instance[@]}" "$pipeline" --json -o "$folder" "${options[@]}") || status=$?
[ "$status" -lt 64 ] || exit "$status"
[ "$status" -eq 1 ] || { echo "$0: status $status in place of 1, an IR pass" >&2; exit 1; }
jq '{verdict, pass, files: .files.folder, instructions: .files.instructions}' <<<"$found"
jq -e '.pass.pass == "mneme-fault"' <<<"$found" >/dev/null

cat >&2 <<END

To find the commit of a program that broke its kernel, let git run a script that builds the program's kernel and bisects it:
statuses from 64 on are errors of the command itself, which git shall skip.

    git bisect start BAD GOOD
    git bisect run sh -c 'mneme-bisect -rdb $database --source src/kernel.cu --reduce 0; s=\$?; [ \$s -lt 64 ] && exit \$s; exit 125'
END
