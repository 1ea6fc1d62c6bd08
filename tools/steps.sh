#!/usr/bin/env bash
# Runs long commands so that a person, or a CI log, always sees where they stand.
#
# Sourced:   steps_begin 2; step "first" command...; step "second" command...
# Executed:  tools/steps.sh "only step" command...
#
# A step prints one line when it starts, one every 15 s, and one when it ends. The command's output
# goes to .cache/logs/, and its end is shown only on failure.
set -euo pipefail

steps_logs="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.cache/logs"
steps_total=1
steps_done=0
steps_child=""

# Says how many steps follow.
steps_begin() {
  steps_total=$1
  steps_done=0
}

# Turns a step's name into a file name.
steps_slug() {
  tr '[:upper:]' '[:lower:]' <<<"$1" | tr -cs '[:alnum:].' '-' | sed 's/-$//'
}

# Prints the log's last line; progress bars rewrite theirs after a carriage return.
steps_last_line() {
  tail -c 2000 "$1" | tr '\r' '\n' | { grep -v '^[[:space:]]*$' || echo "no output yet"; } | tail -n 1 | cut -c 1-100
}

# Ends the running command with everything that it started, then this shell.
steps_abort() {
  trap - INT TERM HUP
  if [[ -n $steps_child ]]; then
    kill -TERM -- "-$steps_child" 2>/dev/null || true
  fi
  echo "interrupted" >&2
  exit "$1"
}

# step "name" command...: runs the command (a function will do) and leaves this shell if it fails.
step() {
  local name=$1 start=$SECONDS next=$((SECONDS + 15)) log status=0
  shift
  steps_done=$((steps_done + 1))
  mkdir -p "$steps_logs"
  log="$steps_logs/$(steps_slug "$name").log"
  echo "[$steps_done/$steps_total] $name ..."

  trap 'steps_abort 130' INT
  trap 'steps_abort 143' TERM
  trap 'steps_abort 129' HUP
  # Job control puts the command in a process group of its own, which steps_abort can end whole.
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  steps_child=$!
  set +m
  while kill -0 "$steps_child" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS >= next)); then
      echo "      $((SECONDS - start)) s: $(steps_last_line "$log")"
      next=$((SECONDS + 15))
    fi
  done
  wait "$steps_child" || status=$?
  steps_child=""
  trap - INT TERM HUP

  if ((status != 0)); then
    {
      echo "      failed in $((SECONDS - start)) s (exit status $status); the end of its output:"
      tail -n 30 "$log" | sed 's/^/      | /'
      echo "      whole output: $log"
    } >&2
    exit "$status"
  fi
  echo "      done in $((SECONDS - start)) s"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  step "$@"
fi
