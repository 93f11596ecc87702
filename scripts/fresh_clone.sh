#!/bin/sh
# scripts/fresh_clone.sh [ARGS...]: times the first steps of a new user: clone the committed state, use an
# empty home without pip's cache, start ./run until it has served a message, and run ./test ARGS.
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

# Start, wait for the address, which is printed after the self-check, and stop.
serve_one() {
    begun=$(date +%s)
    ./run standalone --port 0 --print-address >"$work/address" &
    server=$!
    read -r address <"$work/address" || { echo "$1: the server did not start" >&2; exit 1; }
    echo "$1: $(($(date +%s) - begun)) s until the self-check of $address"
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
