#!/usr/bin/env bash
# Makes the pod and installs wearjax on all its workers.
#   create.sh [--dry-run] [--settings FILE]
# Needs POD_NAME, POD_ZONE, POD_TYPE. POD_CAPACITY=spot takes interruptible capacity. What is installed
# (see install.sh) is there, or built, before the pod is made.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
no_arguments
need POD_NAME POD_ZONE POD_TYPE
find_package

capacity=()
[ "$POD_CAPACITY" = on-demand ] || capacity=("--$POD_CAPACITY")
tpu create --accelerator-type "$POD_TYPE" --version "$POD_RUNTIME" ${capacity[@]+"${capacity[@]}"}
install_package
