#!/usr/bin/env bash
# Deletes the pod with the disks of its workers. What lies on shared storage stays.
#   delete.sh [--dry-run] [--settings FILE]
# Needs POD_NAME, POD_ZONE.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
no_arguments
need POD_NAME POD_ZONE

tpu delete
