#!/usr/bin/env bash
# Says how the run stands on each worker, one line each: running, finished, stopped, failed, idle or bare
# (not installed), and the step of the last checkpoint.
#   status.sh [--dry-run] [--settings FILE]
# Needs POD_NAME, POD_ZONE, RUN_OUT.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
no_arguments
need POD_NAME POD_ZONE RUN_OUT

asked=$(quoted bash wearjax-pod/worker.sh status "$RUN_OUT")
tpu ssh --worker all --command "if [ -f wearjax-pod/worker.sh ]; then $asked; else echo bare 0; fi"
