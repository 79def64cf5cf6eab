# shellcheck shell=bash
# Settings of a pod and of its run, and the few steps that all scripts share. Sourced by each script.
#
# Settings come from the environment, or from a file of NAME=value lines given with --settings (or in
# POD_SETTINGS); the environment goes first. settings.example lists them all.

# shellcheck disable=SC2034  # for the scripts
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CHECKOUT=$(dirname "$HERE")
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
    UNCHECKED=0 # how many of REST came after --
    local file=${POD_SETTINGS:-}
    while [ $# -gt 0 ]; do
        case $1 in
            --dry-run) DRY_RUN=1 ;;
            --settings)
                [ $# -ge 2 ] || fail 2 "--settings needs a file"
                file=$2
                shift
                ;;
            --settings=*) file=${1#*=} ;;
            -h | --help)
                sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
                exit 0
                ;;
            --)
                shift
                UNCHECKED=$#
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
    check_settings
    [ "$DRY_RUN" = 1 ] || command -v gcloud >/dev/null ||
        fail 1 "gcloud is not installed (https://cloud.google.com/sdk/docs/install); --dry-run works without it"
}

check_settings() { # of all that are wrong, one line each
    WRONG=0
    POD_BUCKET=${POD_BUCKET:-}
    if [ -n "$POD_BUCKET" ]; then
        local bucket=${POD_BUCKET#gs://}
        expect POD_BUCKET "${bucket%/}" '^[a-z0-9][a-z0-9._-]*$' "the name of a bucket, e.g. my-bucket or" \
            "gs://my-bucket"
        POD_BUCKET=${bucket%/}
    fi
    [ -z "${POD_NFS:-}" ] || expect POD_NFS "$POD_NFS" '^[^/:]+:/.*$' "HOST:/PATH, e.g. 10.0.0.2:/share"
    [ -z "$POD_BUCKET" ] || [ -z "${POD_NFS:-}" ] || wrong "set POD_BUCKET or POD_NFS, not both"
    local seconds='^[0-9]+([.][0-9]+)?$' whole='^[0-9]+$'
    expect POD_CAPACITY "$POD_CAPACITY" '^(on-demand|spot|preemptible)$' "on-demand, spot or preemptible"
    expect POD_MOUNT "$POD_MOUNT" '^/.*[^/]$' "an absolute path on the workers, e.g. /mnt/wearjax"
    expect POD_STOP_SECONDS "$POD_STOP_SECONDS" "$whole" "a whole number of seconds"
    expect POD_POLL_SECONDS "$POD_POLL_SECONDS" "$seconds" "a number of seconds"
    expect POD_MAX_FAILURES "$POD_MAX_FAILURES" '^[1-9][0-9]*$' "a whole number of at least 1"
    expect POD_DELETE_WHEN_FINISHED "$POD_DELETE_WHEN_FINISHED" '^[01]$' "0 or 1"
    [ $WRONG = 0 ] || exit 2
}

wrong() {
    say "error: $*"
    WRONG=1
}

expect() { # expect NAME VALUE PATTERN WHAT...: the value is of the pattern
    [[ $2 =~ $3 ]] || wrong "$1 is '${!1}', expected ${*:4}"
}

read_file() {
    [ -f "$1" ] || fail 2 "no settings file $1"
    local given name
    while read -r name; do
        case " ${SETTING_NAMES//$'\n'/ } " in
            *" $name "*) ;;
            *) fail 2 "$1: there is no setting $name; settings.example lists them all" ;;
        esac
    done < <(sed -nE 's/^ *(export +)?((POD|RUN)_[A-Za-z0-9_]*)=.*/\2/p' "$1")
    given=$(for name in $SETTING_NAMES; do [ -z "${!name+x}" ] || printf '%s=%q\n' "$name" "${!name}"; done)
    # shellcheck disable=SC1090
    . "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
    eval "$given"
}

need() { # need NAME...: each must be set
    local name missing="" are=is them=it
    for name in "$@"; do
        [ -z "${!name:-}" ] || continue
        [ -z "$missing" ] || are=are them=them
        missing+="${missing:+, }$name"
    done
    [ -z "$missing" ] ||
        fail 2 "$missing $are not set; set $them in the environment or in a file given with --settings"
}

no_arguments() {
    [ ${#REST[@]} -eq 0 ] || fail 2 "unexpected argument: ${REST[0]}"
}

need_run() { # what a run is: configuration, data, folder, and changes of the configuration
    need POD_NAME POD_ZONE RUN_CONFIG RUN_DATA RUN_OUT
    only_fields
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

only_fields() { # of REST, what came before --: a mistyped option of a script must not start a run
    local word
    case ${REST[0]:--} in
        -*) ;;
        *) [ ${#REST[@]} -eq "$UNCHECKED" ] || fail 2 "unexpected argument: ${REST[0]}" ;;
    esac
    for word in ${REST[@]+"${REST[@]:0:${#REST[@]}-UNCHECKED}"}; do
        case $word in
            --name | --name=* | --seed | --seed=*) ;;
            --* | -[A-Za-z]*)
                [[ $word =~ ^--[A-Za-z_][A-Za-z0-9_-]*[.][A-Za-z0-9_.-]+(=.*)?$ ]] || unknown_option "$word"
                ;;
        esac
    done
}

unknown_option() {
    fail 2 "unknown option ${1%%=*}: expected --dry-run, --settings FILE, or fields of the configuration such as" \
        "--loop.steps 1000 (what follows -- is not checked)"
}

find_package() { # the wheel to copy: POD_PACKAGE, or one built from this checkout; before anything costs
    case ${POD_PACKAGE:-} in
        "") build_wheel ;;
        *.whl)
            [ -f "$POD_PACKAGE" ] || fail 2 "POD_PACKAGE: no file $POD_PACKAGE"
            case $(basename "$POD_PACKAGE") in
                wearjax-*) ;;
                *) fail 2 "POD_PACKAGE: $POD_PACKAGE is no wheel of wearjax (wearjax-VERSION-py3-none-any.whl)" ;;
            esac
            ;;
    esac
}

build_wheel() { # of this checkout, into a folder that goes with this script
    local version command
    [ -f "$CHECKOUT/pyproject.toml" ] ||
        fail 2 "POD_PACKAGE is not set, and $CHECKOUT is no checkout of wearjax to build a wheel from"
    if command -v uv >/dev/null; then
        command=(uv build --quiet --wheel --out-dir)
    elif python3 -m pip --version >/dev/null 2>&1; then
        command=(python3 -m pip wheel --quiet --no-deps --wheel-dir)
    elif [ "$DRY_RUN" = 1 ]; then
        command=(uv build --quiet --wheel --out-dir)
    else
        fail 1 "neither uv nor pip is here to build a wheel of $CHECKOUT; set POD_PACKAGE to a wheel or to a" \
            "pip requirement"
    fi
    if [ "$DRY_RUN" = 1 ]; then
        version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$CHECKOUT/pyproject.toml")
        echo "# $(quoted "${command[@]}" FOLDER "$CHECKOUT")"
        POD_PACKAGE=FOLDER/wearjax-$version-py3-none-any.whl
        return
    fi
    WHEEL_FOLDER=$(mktemp -d)
    trap 'rm -rf "$WHEEL_FOLDER"' EXIT
    say "+ $(quoted "${command[@]}" "$WHEEL_FOLDER" "$CHECKOUT")"
    "${command[@]}" "$WHEEL_FOLDER" "$CHECKOUT" >&2 </dev/null || fail 1 "the wheel of $CHECKOUT could not be built"
    for POD_PACKAGE in "$WHEEL_FOLDER"/wearjax-*.whl; do
        [ -f "$POD_PACKAGE" ] || fail 1 "building left no wheel of $CHECKOUT"
    done
    export POD_PACKAGE # for the scripts that this one calls
}

install_package() { # what find_package found, on all workers, and the shared storage
    local package=$POD_PACKAGE files=("$HERE/worker.sh") storage=(none none)
    case $package in
        *.whl)
            files+=("$package")
            package=$(basename "$package")
            ;;
    esac
    [ -z "${POD_BUCKET:-}" ] || storage=(bucket "$POD_BUCKET")
    [ -z "${POD_NFS:-}" ] || storage=(nfs "$POD_NFS")
    tpu ssh --worker all --command "mkdir -p wearjax-pod"
    copy_to_workers "${files[@]}"
    on_workers all setup "$package" "${storage[@]}" "$POD_MOUNT"
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
