#!/bin/sh
# scripts/fresh_clone.sh [ARGS...]: what a newcomer does, timed: a clone of what is committed, an empty
# home and no cache of pip's, ./run until it has served its first message, and ./test ARGS.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

export HOME="$work/home"
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME PIP_CACHE_DIR UV_CACHE_DIR
mkdir "$HOME"
git clone -q "$root" "$work/clone"
cd "$work/clone"
mkfifo "$work/address"

# Starts, waits for the address that is printed once a message has come back, and stops.
serve_one() {
    begun=$(date +%s)
    ./run standalone --port 0 --print-address >"$work/address" &
    server=$!
    read -r address <"$work/address" || { echo "$1: nothing was served" >&2; exit 1; }
    echo "$1: $(($(date +%s) - begun)) s until a message had gone through $address"
    kill "$server"
    wait "$server"
    server=
}

serve_one "first ./run"
serve_one "second ./run"
begun=$(date +%s)
code=0
./test "$@" || code=$?
echo "first ./test $*: $(($(date +%s) - begun)) s, exit code $code, on $(getconf _NPROCESSORS_ONLN) cores" \
    "with a load of $(cut -d' ' -f1 /proc/loadavg)"
exit "$code"
