# Sourced by ./run, ./test and bench/run from the root. `prepare EXTRAS` creates a working environment
# in .venv; it does nothing if .venv was created from the same dependencies.

say() { printf '%s\n' "$*" >&2; }

# The first python3 that is new enough, or an error that names the version that was found.
find_python() {
    for python in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$python"
            return
        fi
    done
    say "cometmq needs python3 3.11 or newer; found: $(python3 --version 2>&1 || true)"
    return 1
}

# Debian ships python3 without ensurepip; these alternatives create an environment without it.
make_venv() {
    python=$(find_python) || return 1
    rm -rf .venv
    "$python" -m venv .venv >/dev/null 2>&1 && return
    rm -rf .venv
    if "$python" -m pip --version >/dev/null 2>&1 && "$python" -m venv --without-pip .venv; then
        "$python" -m pip --python .venv/bin/python install -q pip && return
    fi
    rm -rf .venv
    command -v uv >/dev/null 2>&1 && uv venv -q --seed --python "$python" .venv && return
    "$python" -m virtualenv -q .venv 2>/dev/null && return
    rm -rf .venv
    say "$python cannot create an environment; try:  apt-get install python3-venv"
    return 1
}

# The inputs of an environment with these extras, with the folder: a moved environment does not work.
made_for() { printf '%s\n' "$1 $PWD $(cksum pyproject.toml)"; }

prepare() {
    extras=$1
    stamp=.venv/made-for-$extras
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(made_for "$extras")" ] && .venv/bin/python -c '' && return
    case "$(cat .venv/made-for-* 2>/dev/null)" in *" $PWD "* | "") ;; *) rm -rf .venv ;; esac
    [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv || return 1
    say "preparing .venv: downloading and installing dependencies (only the first time, and after they change) ..."
    if ! .venv/bin/python -m pip install -q --disable-pip-version-check -e ".[$extras]" >&2; then
        say "installing the dependencies failed; see the lines above"
        return 1
    fi
    # Otherwise the first start would compile, and with PYTHONDONTWRITEBYTECODE every start.
    .venv/bin/python -m compileall -q src
    made_for "$extras" >"$stamp"
    # The test extra includes the others, so that ./run in a test installs nothing.
    [ "$extras" = test ] || return 0
    for others in speed spark; do made_for $others >.venv/made-for-$others; done
}
