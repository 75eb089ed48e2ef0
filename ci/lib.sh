# shellcheck shell=bash
# Sourced by the scripts in ci/: what a machine needs, where things go, a broker to talk to.
#
# Everything that is made here lies below the cargo target folder; nothing reaches outside the clone
# except packages of the system, which are installed when a command is missing, and then said.
set -euo pipefail
shopt -s inherit_errexit

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
mkdir -p "$target/ci"
target=$(cd "$target" && pwd)
# shellcheck disable=SC2034  # used by the scripts that source this
made=$target/ci

say() { printf '%s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# as_root COMMAND...: runs it as root, by sudo where this is another user.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "needs root for: $*; run as root or install sudo"
  fi
}

# install PACKAGE...: from the system's package manager. The lists are refreshed only when the first
# try fails, since that costs more than most installations.
install() {
  command -v apt-get >/dev/null || die "needs $*; install it with this system's package manager"
  say "installing $*"
  local quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install)
  as_root "${quiet[@]}" "$@" >"$target/ci/apt.log" 2>&1 && return
  as_root apt-get -qq update >>"$target/ci/apt.log" 2>&1 || true
  as_root "${quiet[@]}" "$@" >>"$target/ci/apt.log" 2>&1 || {
    tail -n 5 "$target/ci/apt.log" >&2
    die "could not install $*"
  }
}

# need COMMAND PACKAGE: installs the package when there is no such command.
need() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || install "$2"; }

need_rust() {
  command -v cargo >/dev/null || die "needs rustup with a stable toolchain of 1.95 or newer"
  command -v cc >/dev/null || install gcc libc6-dev
}

need_java() {
  # javac, not java: a machine with a mere runtime has no compiler.
  need javac openjdk-17-jdk-headless
  need mvn maven
}

# venv REQUIREMENTS-FILE: a Python environment below target/ with these packages; prints its python.
# It is made again when the file has changed.
venv() {
  local dir=$target/ci/venv sum python
  sum=$(cksum <"$1")
  if [ "$(cat "$dir/complete" 2>/dev/null)" != "$sum" ]; then
    need python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || install python3-venv
    rm -rf "$dir"
    # In two steps: venv alone swallows what ensurepip says when it fails.
    python3 -m venv --without-pip "$dir"
    "$dir/bin/python3" -m ensurepip --default-pip >"$dir/ensurepip.log" 2>&1 || die "ensurepip: $(tail -n 5 "$dir/ensurepip.log")"
    "$dir/bin/pip" install --quiet --disable-pip-version-check -r "$1" >&2
    printf '%s' "$sum" >"$dir/complete"
  fi
  python=$dir/bin/python3
  printf '%s' "$python"
}

# maven_libs POM NAME: the jars that a pom names, below target/; prints their folder. Maven is asked
# only once for the same pom.
maven_libs() {
  local libs=$target/ci/$2/libs sum
  sum=$(cksum <"$1")
  if [ "$(cat "$target/ci/$2/complete" 2>/dev/null)" != "$sum" ]; then
    rm -rf "$libs"
    mvn -q -B -f "$1" dependency:copy-dependencies -DoutputDirectory="$libs" >&2
    printf '%s' "$sum" >"$target/ci/$2/complete"
  fi
  printf '%s' "$libs"
}

# build_release: the two binaries that users run. BROKER_BIN names a folder with ready ones instead.
build_release() {
  [ -n "${BROKER_BIN:-}" ] && return
  (cd "$root" && cargo build --quiet --release --package rillway --package rillway-tools)
}

# binary NAME: the path of one of ours.
binary() { printf '%s' "${BROKER_BIN:-$target/release}/$1"; }

# The first two processors this process may run on, as a list for --cores; one where there is one.
two_cores() {
  local n
  n=$(nproc)
  if [ "$n" -ge 2 ]; then printf '0,1'; else printf '0'; fi
}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port: a listen port whose core ports (port + 1000 + 100 x core) are free too. It lies below
# the range that the kernel hands to outgoing connections, or one of those could take it.
free_port() {
  local port try
  for try in $(seq 50); do
    port=$((12000 + (RANDOM + try) % 15000))
    if port_is_free "$port" && port_is_free $((port + 1)) &&
      port_is_free $((port + 1000)) && port_is_free $((port + 1100)); then
      printf '%s' "$port"
      return
    fi
  done
  die "found no free ports on 127.0.0.1"
}

# wait_until SECONDS PID CONDITION...: polls the condition; fails when the process ends or time is up.
wait_until() {
  local until=$((SECONDS + $1)) pid=$2
  shift 2
  until "$@"; do
    kill -0 "$pid" 2>/dev/null || return 1
    [ "$SECONDS" -lt "$until" ] || return 1
    read -rt 0.05 <> <(:) || true
  done
}

# broker_start DIR PORT [ARGUMENTS...]: starts our broker, waits until it serves, sets broker_pid. Its
# output goes to DIR.log.
broker_start() {
  local dir=$1 port=$2
  shift 2
  mkdir -p "$(dirname "$dir")"
  # Emptied here and not by the child, or `ready` of an earlier run would be found in it.
  : >"$dir.log"
  # The broker outlives the script (ci/quickstart): it must not hold a lock or a pipe of whoever called it.
  (
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      if [ "$fd" -gt 2 ] && [ "$fd" -ne 255 ]; then eval "exec $fd>&-"; fi
    done
    exec setsid "$(binary rillway)" serve --data-dir "$dir" --listen "127.0.0.1:$port" \
      --cores "$(two_cores)" "$@" >>"$dir.log" 2>&1 </dev/null
  ) &
  broker_pid=$!
  wait_until 30 "$broker_pid" grep -qs ready "$dir.log" || {
    tail -n 20 "$dir.log" >&2
    die "the broker did not become ready (its output: $dir.log)"
  }
}

# stop PID: SIGTERM, then waits. A broker drains and writes a checkpoint, which takes at most 10 s.
stop() {
  kill -TERM "$1" 2>/dev/null || return 0
  gone() { ! kill -0 "$1" 2>/dev/null; }
  local until=$((SECONDS + 15))
  until gone "$1"; do
    if [ "$SECONDS" -ge "$until" ]; then
      say "process $1 did not end within 15 s of SIGTERM; killing it"
      kill -KILL "$1" 2>/dev/null || true
      return 1
    fi
    read -rt 0.05 <> <(:) || true
  done
}
