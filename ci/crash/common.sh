# shellcheck shell=bash
# Sourced by kill9 and powercut: options, binaries, the run of crash.py.
#
#   --points N        how many kills (default 20)
#   --seed S          of the moments; printed at the end of each run
#   --mutant no-syncfs   powercut only: a broker that trusts its ring's flush for segments; must lose
#   --set KEY=VALUE   one more setting of the broker
# BROKER=kafka takes Apache Kafka in place of ours.

# A small ring, so that it is lapped between two kills.
ring=ring.bytes=16777216

# crash MODE [OPTION...]
crash() {
  local mode=$1 options=() mutant=
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --mutant)
        [ "$mode $2" = "powercut no-syncfs" ] || die "no mutant $2 for $mode"
        mutant=ring-flush-trusted-for-segments
        shift 2
        ;;
      --points | --seed | --set)
        options+=("$1" "$2")
        shift 2
        ;;
      *) die "unknown option $1; see ci/crash/common.sh" ;;
    esac
  done
  [[ " ${options[*]} " == *" --points "* ]] || options+=(--points 20)

  local python privileged=()
  python=$(venv "$root/ci/clients/requirements.txt")
  if [ "${BROKER:-}" = kafka ]; then
    options+=(--broker kafka)
  else
    options+=(--set "$ring")
    build_release
    BROKER_BIN=$(dirname "$(binary rillway)")
    if [ -n "$mutant" ]; then
      options+=(--mutant "$mutant")
      BROKER_BIN=$(build_mutants)
    fi
    export BROKER_BIN
    # A node may come back with another number of cores.
    options+=(--cores "$(two_cores)" --cores "$(two_cores)" --cores "$(two_cores)" --cores 0)
  fi
  if [ "$mode" = powercut ]; then
    need mkfs.ext4 e2fsprogs
    need mount mount
    [ "$(id -u)" -eq 0 ] || privileged=(sudo --preserve-env "PATH=$PATH")
  fi

  local folder code=0
  folder=$(mktemp -d "$target/ci/$mode.XXXXXX")
  "${privileged[@]}" "$python" "$root/ci/crash/crash.py" "$mode" --folder "$folder" --port "$(free_port)" \
    "${options[@]}" || code=$?
  [ "$code" -ne 0 ] || "${privileged[@]}" rm -rf "$folder"
  return "$code"
}

# build_mutants: a broker that has the known mistakes built in, off until RILLWAY_MUTANT names one.
# Prints its folder. The ordinary binary is put back after: both come from the same target folder.
build_mutants() {
  local folder=$target/ci/mutants
  mkdir -p "$folder"
  (cd "$root" && cargo build --quiet --release --package rillway --features mutants) >&2
  cp "$target/release/rillway" "$folder/"
  (cd "$root" && cargo build --quiet --release --package rillway) >&2
  printf '%s' "$folder"
}
