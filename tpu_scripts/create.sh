#!/usr/bin/env bash
# Makes the pod and installs wearjax on all its workers.
#   create.sh [--dry-run] [--settings FILE]
# Needs POD_NAME, POD_ZONE, POD_TYPE. POD_CAPACITY=spot takes interruptible capacity.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
no_arguments
need POD_NAME POD_ZONE POD_TYPE

capacity=()
[ "$POD_CAPACITY" = on-demand ] || capacity=("--$POD_CAPACITY")
tpu create --accelerator-type "$POD_TYPE" --version "$POD_RUNTIME" ${capacity[@]+"${capacity[@]}"}
"$HERE/install.sh"
