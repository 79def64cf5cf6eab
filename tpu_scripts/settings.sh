# shellcheck shell=bash
# Settings of a pod and of its run, and the few steps that all scripts share. Sourced by each script.
#
# Settings come from the environment, or from a file of NAME=value lines given with --settings (or in
# POD_SETTINGS); the environment goes first. settings.example lists them all.

# shellcheck disable=SC2034  # for the scripts
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SETTING_NAMES="POD_NAME POD_ZONE POD_TYPE POD_PROJECT POD_RUNTIME POD_CAPACITY POD_PACKAGE POD_BUCKET POD_NFS
POD_MOUNT POD_STOP_SECONDS POD_POLL_SECONDS POD_MAX_FAILURES POD_DELETE_WHEN_FINISHED RUN_CONFIG RUN_DATA RUN_OUT"

say() { printf '%s\n' "$*" >&2; }

fail() { # fail EXIT_STATUS MESSAGE...
    local status=$1
    shift
    say "error: $*"
    exit "$status"
}

# Reads options, the settings file and the environment. What is left of the arguments goes to REST.
read_settings() {
    DRY_RUN=${POD_DRY_RUN:-0}
    REST=()
    local file=${POD_SETTINGS:-}
    while [ $# -gt 0 ]; do
        case $1 in
            --dry-run) DRY_RUN=1 ;;
            --settings)
                [ $# -ge 2 ] || fail 2 "--settings needs a file"
                file=$2
                shift
                ;;
            -h | --help)
                sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
                exit 0
                ;;
            --)
                shift
                REST+=("$@")
                break
                ;;
            *) REST+=("$1") ;;
        esac
        shift
    done
    [ -z "$file" ] || read_file "$file"

    POD_RUNTIME=${POD_RUNTIME:-tpu-ubuntu2204-base}
    POD_CAPACITY=${POD_CAPACITY:-on-demand}
    POD_PACKAGE=${POD_PACKAGE:-wearjax[tpu]}
    POD_MOUNT=${POD_MOUNT:-/mnt/wearjax}
    POD_STOP_SECONDS=${POD_STOP_SECONDS:-600}
    POD_POLL_SECONDS=${POD_POLL_SECONDS:-60}
    POD_MAX_FAILURES=${POD_MAX_FAILURES:-3}
    POD_DELETE_WHEN_FINISHED=${POD_DELETE_WHEN_FINISHED:-0}
    local name
    for name in $SETTING_NAMES; do # for the scripts that this one calls
        [ -z "${!name+x}" ] || export "${name?}"
    done
    unset POD_SETTINGS
    export POD_DRY_RUN=$DRY_RUN
    case $POD_CAPACITY in
        on-demand | spot | preemptible) ;;
        *) fail 2 "POD_CAPACITY is '$POD_CAPACITY', expected on-demand, spot or preemptible" ;;
    esac
    [ -z "${POD_BUCKET:-}" ] || [ -z "${POD_NFS:-}" ] || fail 2 "set POD_BUCKET or POD_NFS, not both"
    [ "$DRY_RUN" = 1 ] || command -v gcloud >/dev/null ||
        fail 1 "gcloud is not installed (https://cloud.google.com/sdk/docs/install); --dry-run works without it"
}

read_file() {
    [ -f "$1" ] || fail 2 "no settings file $1"
    local given name
    given=$(for name in $SETTING_NAMES; do [ -z "${!name+x}" ] || printf '%s=%q\n' "$name" "${!name}"; done)
    # shellcheck disable=SC1090
    . "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
    eval "$given"
}

need() { # need NAME...: each must be set
    local name
    for name in "$@"; do
        [ -n "${!name:-}" ] || fail 2 "$name is not set; set it in the environment or in a file given with --settings"
    done
}

no_arguments() {
    [ ${#REST[@]} -eq 0 ] || fail 2 "unexpected argument: ${REST[0]}"
}

need_run() { # what a run is: configuration, data, folder
    need POD_NAME POD_ZONE RUN_CONFIG RUN_DATA RUN_OUT
    case $RUN_OUT in
        /*) ;;
        *) fail 2 "RUN_OUT is '$RUN_OUT', expected an absolute path on the workers, e.g. $POD_MOUNT/runs/first" ;;
    esac
    case $RUN_DATA in
        /* | gs://?*) ;;
        *) fail 2 "RUN_DATA is '$RUN_DATA', expected gs://BUCKET/STORE or an absolute path on the workers" ;;
    esac
    case $RUN_CONFIG in
        *.py) [ -f "$RUN_CONFIG" ] || fail 2 "RUN_CONFIG: no file $RUN_CONFIG" ;;
    esac
}

outlives_pod() { # whether the run folder stays when the workers are gone
    [ -n "${POD_BUCKET:-}${POD_NFS:-}" ] || return 1
    case $RUN_OUT in "$POD_MOUNT"/?*) ;; *) return 1 ;; esac
}

quoted() { # the words as one line that any shell reads back as the same words
    local line="" word escape="'\\''"
    for word in "$@"; do
        case $word in
            "" | *[!A-Za-z0-9_./:=@%+,-]*) word="'${word//\'/$escape}'" ;;
        esac
        line+=" $word"
    done
    printf '%s\n' "${line# }"
}

run() { # runs a command, or prints it in a dry run
    if [ "$DRY_RUN" = 1 ]; then
        quoted "$@"
    else
        say "+ $(quoted "$@")"
        "$@" </dev/null
    fi
}

tpu() { # tpu VERB [OPTION...]: gcloud on the pod
    local verb=$1
    shift
    run gcloud compute tpus tpu-vm "$verb" "$POD_NAME" --zone "$POD_ZONE" \
        ${POD_PROJECT:+--project "$POD_PROJECT"} --quiet "$@"
}

copy_to_workers() { # copy_to_workers FILE...: into wearjax-pod/ of every worker's home
    run gcloud compute tpus tpu-vm scp "$@" "$POD_NAME:wearjax-pod/" --zone "$POD_ZONE" \
        ${POD_PROJECT:+--project "$POD_PROJECT"} --quiet --worker all
}

on_workers() { # on_workers WHICH WORD...: worker.sh with these words, on one worker or on `all`
    local which=$1
    shift
    tpu ssh --worker "$which" --command "$(quoted bash wearjax-pod/worker.sh "$@")"
}
