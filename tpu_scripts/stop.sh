#!/usr/bin/env bash
# Stops the run on all workers: asks each to end after its step, and waits until the checkpoint is written.
#   stop.sh [--dry-run] [--settings FILE]
# Needs POD_NAME, POD_ZONE. The pod stays (and costs): delete.sh ends it. Stop supervise.sh first.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
no_arguments
need POD_NAME POD_ZONE

on_workers all stop "$POD_STOP_SECONDS"
