#!/usr/bin/env bash
# What happens on each worker; install.sh copies this file there.
#   worker.sh setup PACKAGE none|bucket|nfs SOURCE MOUNT
#   worker.sh start OUT DATA CONFIG [--FIELD VALUE ...]
#   worker.sh status OUT | stop SECONDS | logs LINES

set -euo pipefail
home=$HOME/wearjax-pod
mkdir -p "$home"

fail() {
    printf 'error: %s: %s\n' "$(hostname)" "$*" >&2
    exit 1
}

setup() { # PACKAGE KIND SOURCE MOUNT
    local package=$1
    rm -f "$home/ready"
    # The system's Python may be older than wearjax needs; uv brings its own.
    if [ ! -x "$home/env/bin/python" ]; then
        python3 -m pip install --quiet --user uv ||
            python3 -m pip install --quiet --user --break-system-packages uv
        python3 -m uv venv --quiet --python 3.12 "$home/env"
    fi
    case $package in
        *.whl) package="wearjax[tpu] @ file://$home/$package" ;;
    esac
    python3 -m uv pip install --quiet --upgrade --reinstall-package wearjax \
        --python "$home/env/bin/python" "$package"
    mount_storage "$2" "$3" "$4"
    touch "$home/ready"
}

mount_storage() { # KIND SOURCE MOUNT
    [ "$1" != none ] || return 0
    ! mountpoint -q "$3" || return 0
    sudo mkdir -p "$3"
    case $1 in
        nfs)
            sudo apt-get install -y -qq nfs-common
            sudo mount -t nfs "$2" "$3"
            ;;
        bucket)
            command -v gcsfuse >/dev/null || install_gcsfuse
            sudo chown "$(id -u):$(id -g)" "$3"
            # No metadata cache: workers must see each other's files. Checkpoints are folders renamed when whole.
            gcsfuse --implicit-dirs --rename-dir-limit 1000000 --metadata-cache-ttl-secs 0 "$2" "$3"
            ;;
    esac
}

install_gcsfuse() {
    local key=/usr/share/keyrings/cloud.google.asc source=https://packages.cloud.google.com/apt
    curl -fsS "$source/doc/apt-key.gpg" | sudo tee "$key" >/dev/null
    echo "deb [signed-by=$key] $source gcsfuse-$(lsb_release -cs) main" |
        sudo tee /etc/apt/sources.list.d/gcsfuse.list >/dev/null
    sudo apt-get update -qq
    sudo apt-get install -y -qq gcsfuse
}

running() { # whether the recorded process is alive, and is a training (its number may have been given away)
    [ -f "$home/pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$(cat "$home/pid")/cmdline" | grep -q 'wearjax pretrain'
}

appears() { # FILE SECONDS: whether a file is there, or comes within the time
    for _ in $(seq $((10 * $2))); do
        [ ! -f "$1" ] || return 0
        sleep 0.1
    done
    return 1
}

start() { # OUT DATA CONFIG [OVERRIDE...]
    local out=$1 data=$2 config=$3
    shift 3
    [ -f "$home/ready" ] || fail "wearjax is not installed here; run install.sh"
    if running; then
        echo "running already"
        return
    fi
    case $data in
        gs://*)
            mkdir -p "$home/data"
            gcloud storage rsync --recursive --delete-unmatched-destination-objects "$data" "$home/data"
            data=$home/data
            ;;
    esac
    [ ! -f "$home/$config" ] || config=$home/$config
    rm -f "$home/exit" "$home/pid"
    nohup setsid bash "$0" train "$out" "$data" "$config" "$@" </dev/null >/dev/null 2>&1 &
    appears "$home/pid" 10 || fail "training did not start within 10 s"
    echo "started"
}

train() { # OUT DATA CONFIG [OVERRIDE...]: trains and leaves the exit status
    local out=$1 data=$2 config=$3 status=0
    shift 3
    "$home/env/bin/wearjax" pretrain "$config" --data "$data" --out "$out" --multi-host "$@" \
        >>"$home/log" 2>&1 &
    echo $! >"$home/pid.new"
    mv "$home/pid.new" "$home/pid"
    wait $! || status=$?
    echo "$status" >"$home/exit.new"
    mv "$home/exit.new" "$home/exit"
}

finished() { # OUT: the last step's checkpoint and the model are there
    [ -f "$1/bundle/bundle.json" ] && [ -f "$1/config.json" ] || return 1
    local steps
    steps=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["run"]["steps"])' "$1/config.json")
    [ -d "$1/checkpoints/$steps" ]
}

last_step() { # OUT: of the newest checkpoint, 0 without one
    find "$1/checkpoints" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*' 2>/dev/null |
        sed 's|.*/||' | grep -x '[0-9]*' | sort -n | tail -n 1 | grep . || echo 0
}

status() { # OUT: one word, the step, and what failed
    # The state first: of a run that just ended, the step read before would not be its last.
    local word why
    read -r word why <<<"$(state "$1")"
    echo "$word $(last_step "$1")${why:+ $why}"
}

state() { # OUT: one word, and what failed
    if [ ! -f "$home/ready" ]; then
        echo bare
    elif running; then
        echo running
    elif finished "$1"; then
        echo finished
    elif exit_written; then
        local code
        code=$(cat "$home/exit")
        case $code in
            0) echo finished ;; # only the first worker sees the model when the folder is not shared
            130 | 143) echo stopped ;;
            *) echo "failed (exit status $code)" ;;
        esac
    else
        echo idle
    fi
}

exit_written() { # whether a run has ended here; its exit status comes a moment after its process is gone
    [ -f "$home/pid" ] && appears "$home/exit" 2
}

stop() { # SECONDS
    if ! running; then
        echo "not running"
        return
    fi
    local until=$((SECONDS + $1))
    kill -TERM "$(cat "$home/pid")"
    while running; do
        [ $SECONDS -lt $until ] || fail "still running after $1 s; its last checkpoint may be older"
        sleep 0.2
    done
    exit_written || true # else it would be written into the next run's start
    echo "stopped"
}

logs() { # LINES
    [ -f "$home/log" ] || fail "no log yet"
    tail -n "$1" "$home/log"
}

action=${1:-}
case $action in
    setup | start | train | status | stop | logs)
        shift
        "$action" "$@"
        ;;
    *) fail "unknown action '$action'" ;;
esac
