#!/usr/bin/env bash
# Starts pretraining on all workers, in the background there; a run that is under way is left alone.
#   start.sh [--dry-run] [--settings FILE] [--FIELD VALUE ...]
# Needs POD_NAME, POD_ZONE, RUN_CONFIG, RUN_DATA, RUN_OUT. Further arguments set fields of the
# configuration, e.g. --loop.steps 1000; give the same ones when the run resumes. Other options are refused;
# what follows -- is handed on unchecked.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
need_run

outlives_pod || say "note: RUN_OUT is not on shared storage (POD_BUCKET or POD_NFS, mounted at $POD_MOUNT):" \
    "it goes with the workers, and several workers cannot share it"
config=$RUN_CONFIG
case $config in
    *.py)
        copy_to_workers "$config"
        config=$(basename "$config")
        ;;
esac
on_workers all start "$RUN_OUT" "$RUN_DATA" "$config" ${REST[@]+"${REST[@]}"}
