#!/usr/bin/env bash
# Goes on with a run that was stopped or interrupted: the same as start.sh, since runs resume by themselves.
#   resume.sh [--dry-run] [--settings FILE] [--FIELD VALUE ...]
# Needs what start.sh needs; give the arguments that the run was started with.

set -euo pipefail
case ${1:-} in
    -h | --help)
        sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
esac
exec "$(dirname "${BASH_SOURCE[0]}")/start.sh" "$@"
