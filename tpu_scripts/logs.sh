#!/usr/bin/env bash
# Shows the end of the log of one worker (default 0) or of `all`.
#   logs.sh [--dry-run] [--settings FILE] [WORKER [LINES]]
# Needs POD_NAME, POD_ZONE.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
need POD_NAME POD_ZONE
[ ${#REST[@]} -le 2 ] || fail 2 "unexpected argument: ${REST[2]}"

worker=${REST[0]:-0} lines=${REST[1]:-40}
[[ $worker =~ ^(all|[0-9]+)$ ]] || fail 2 "worker '$worker': expected a number or all"
[[ $lines =~ ^[1-9][0-9]*$ ]] || fail 2 "lines '$lines': expected a whole number of at least 1"

on_workers "$worker" logs "$lines"
