# shellcheck shell=bash
# Sourced by the scripts, in the root of the checkout: which Python they run.

# choose_python: sets PYTHON to the one that it names, to python3, or, where python3 is too old, to a
# newer one beside it; ends with an error where there is none.
choose_python() {
    local newer
    export PYTHON=${PYTHON:-}
    if [[ -n $PYTHON ]]; then
        command -v "$PYTHON" >/dev/null ||
            { echo "error: no $PYTHON, which PYTHON names: expected a command or a path" >&2; exit 1; }
    else
        PYTHON=python3
        command -v python3 >/dev/null || return 0 # it is a package that is missing
        "$PYTHON" scripts/check_python.py 2>/dev/null && return
        for newer in python3.{12,11,10,13,14}; do # those of JetPack first
            if "$newer" scripts/check_python.py 2>/dev/null; then
                PYTHON=$newer
                echo "python3 is too old: $newer is used" >&2
                return
            fi
        done
    fi
    "$PYTHON" scripts/check_python.py || exit 1
}

# own_python ROOT: sets PROGRAM to the checkout's own Python, else to what choose_python sets; ends
# with 4 where there is none.
own_python() {
    PROGRAM=$1/.venv/bin/python
    [[ ! -x $PROGRAM ]] || return 0
    [[ ${PYTHON:-} != */* ]] || PYTHON=$(realpath --no-symlinks --canonicalize-missing "$PYTHON")
    PROGRAM=$(cd "$1" && choose_python && command -v "$PYTHON") && return
    [[ -n ${PYTHON:-} ]] || command -v python3 >/dev/null ||
        echo "error: no python3: sudo apt-get install python3 python3-venv" >&2
    exit 4
}
