#!/usr/bin/env bash
# Installs wearjax on all workers and mounts the shared storage; safe to repeat.
#   install.sh [--dry-run] [--settings FILE]
# Needs POD_NAME, POD_ZONE. A wheel is built from this checkout (with uv or pip) and copied, or POD_PACKAGE is
# installed: a wheel on this machine, or a pip requirement.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
no_arguments
need POD_NAME POD_ZONE

find_package
install_package
