#!/usr/bin/env bash
# Installs wearjax on all workers and mounts the shared storage; safe to repeat.
#   install.sh [--dry-run] [--settings FILE]
# Needs POD_NAME, POD_ZONE. POD_PACKAGE may be a wheel on this machine, which is copied.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
no_arguments
need POD_NAME POD_ZONE

package=$POD_PACKAGE
files=("$HERE/worker.sh")
case $package in
    *.whl)
        [ -f "$package" ] || fail 2 "POD_PACKAGE: no file $package"
        files+=("$package")
        package=$(basename "$package")
        ;;
esac
storage=(none none)
[ -z "${POD_BUCKET:-}" ] || storage=(bucket "$POD_BUCKET")
[ -z "${POD_NFS:-}" ] || storage=(nfs "$POD_NFS")

tpu ssh --worker all --command "mkdir -p wearjax-pod"
copy_to_workers "${files[@]}"
on_workers all setup "$package" "${storage[@]}" "$POD_MOUNT"
