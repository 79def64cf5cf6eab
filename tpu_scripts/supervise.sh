#!/usr/bin/env bash
# Keeps a run going until it is finished: makes the pod when there is none, makes it anew when it was preempted,
# and starts the run again when it is not running. Leave it on a machine that stays on (tmux); Ctrl-C ends only
# the supervision.
#   supervise.sh [--dry-run] [--settings FILE] [--FIELD VALUE ...]
# Needs what create.sh and start.sh need, and a run folder on shared storage (POD_BUCKET or POD_NFS).
# Ends with 0 when the run is finished, with 1 after POD_MAX_FAILURES failures without a new checkpoint.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
read_settings "$@"
need POD_NAME POD_ZONE POD_TYPE RUN_CONFIG RUN_DATA RUN_OUT
need_run
outlives_pod || fail 2 "RUN_OUT=$RUN_OUT goes with the workers: set POD_BUCKET or POD_NFS and put it below $POD_MOUNT"
arguments=(${REST[@]+"${REST[@]}"})

failures=0
newest=0 # step of the newest checkpoint seen
start() { "$HERE/start.sh" -- ${arguments[@]+"${arguments[@]}"}; }

note() { say "$(date '+%F %T') $*"; }

count_failure() { # WHAT: gives up after too many without a new checkpoint
    failures=$((failures + 1))
    note "$1 (failure $failures of at most $POD_MAX_FAILURES)"
    [ $failures -lt "$POD_MAX_FAILURES" ] || fail 1 "given up after $failures failures at step $newest: $1"
}

pod_state() { # gcloud's word, or ABSENT, or UNKNOWN
    local found
    if found=$(tpu describe --format 'value(state)' 2>&1 | sed '/^+ /d'); then
        printf '%s\n' "$found" | tail -n 1
    elif printf '%s' "$found" | grep -qi 'not[_ ]found'; then
        echo ABSENT
    else
        say "$found"
        echo UNKNOWN
    fi
}

create() {
    note "making the pod"
    local output
    if output=$("$HERE/create.sh" 2>&1); then
        say "$output"
        start || count_failure "the run did not start"
        return
    fi
    say "$output"
    if printf '%s' "$output" | grep -qiE 'no (more )?capacity|stockout|resource_exhausted|not enough resources' &&
        ! printf '%s' "$output" | grep -qi quota; then
        note "no capacity; trying again in $POD_POLL_SECONDS s"
    else
        count_failure "the pod could not be made"
    fi
}

restart() {
    "$HERE/stop.sh" || note "some worker did not stop"
    start || note "the run did not start"
}

attend() { # to a pod that is ready
    local report step
    if ! report=$("$HERE/status.sh"); then
        count_failure "the workers cannot be asked"
        return
    fi
    has() { printf '%s\n' "$report" | grep -q "^$1 "; }
    step=$(printf '%s\n' "$report" | sed -n 's/^[a-z]* \([0-9][0-9]*\).*/\1/p' | sort -n | tail -n 1)
    if [ "${step:-0}" -gt "$newest" ]; then
        newest=$step
        failures=0
    fi
    if has failed; then
        "$HERE/logs.sh" 0 20 || true
        count_failure "the run failed: $(printf '%s\n' "$report" | grep -m 1 '^failed ')"
        restart
    elif has bare; then
        note "installing"
        { "$HERE/install.sh" && start; } || count_failure "the workers could not be set up"
    elif has running && ! has idle && ! has stopped; then
        note "running, checkpoint at step $newest"
    elif has finished && ! has running; then
        note "finished at step $newest"
        if [ "$POD_DELETE_WHEN_FINISHED" = 1 ]; then
            "$HERE/delete.sh"
        else
            note "the pod is still there; delete.sh ends it"
        fi
        exit 0
    else
        note "not running on every worker; starting again from step $newest"
        restart
    fi
}

if [ "$DRY_RUN" = 1 ]; then
    echo "# every $POD_POLL_SECONDS s:"
    tpu describe --format 'value(state)'
    echo "# when it was preempted:"
    "$HERE/delete.sh"
    echo "# when there is none:"
    "$HERE/create.sh"
    start
    echo "# when it is ready:"
    "$HERE/status.sh"
    echo "# when the run is not running on every worker:"
    "$HERE/stop.sh"
    start
    exit 0
fi

find_package # once: a pod that is made anew gets the same
trap 'say "supervision ended; pod and run go on (stop.sh, delete.sh)"; exit 130' INT TERM
while true; do
    state=$(pod_state)
    case $state in
        READY) attend ;;
        ABSENT) create ;;
        PREEMPTED | TERMINATED)
            note "the pod was preempted"
            if "$HERE/delete.sh"; then create; else count_failure "the old pod could not be deleted"; fi
            ;;
        STOPPED) fail 1 "the pod was stopped by somebody; start or delete it, then supervise again" ;;
        UNKNOWN) count_failure "the pod's state cannot be read" ;;
        *) note "the pod is $state" ;;
    esac
    sleep "$POD_POLL_SECONDS"
done
