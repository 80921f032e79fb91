# shellcheck shell=bash
# Sourced by the scripts: finds out which system packages are missing and installs them.

# missing_packages: prints the Debian packages that a build still needs, one a line.
missing_packages() {
    local package=python3
    [[ $(basename "${PYTHON:-}") != python3.* ]] || package=$(basename "$PYTHON") # one beside it
    command -v c++ >/dev/null || echo g++
    if ! command -v "${PYTHON:-python3}" >/dev/null; then
        printf '%s\n' python3 python3-venv python3-dev
        return
    fi
    "${PYTHON:-python3}" -c 'import venv, ensurepip' 2>/dev/null || echo "$package-venv"
    "${PYTHON:-python3}" - <<'PY' || echo "$package-dev"
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
PY
}

# install_packages NAME...: with apt as root or through sudo; else one error that names them all.
install_packages() {
    [[ $# -gt 0 ]] || return 0
    local as_root=()
    if [[ $(id -u) -ne 0 ]]; then
        as_root=(sudo)
    fi
    if ! command -v apt-get >/dev/null || { [[ ${#as_root[@]} -gt 0 ]] && ! may_sudo; }; then
        echo "error: please install these system packages first: $*" >&2
        return 1
    fi
    echo "installing system packages: $*" >&2
    # stdout may carry a program's answer, and stdin its prompt.
    if ! { "${as_root[@]}" apt-get -qq update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get -qq install --yes --no-install-recommends "$@"; } </dev/null >/dev/null; then
        echo "error: apt-get could not install: $*" >&2
        return 1
    fi
}

# may_sudo: sudo works without a password, or there is a terminal to type it.
may_sudo() {
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null || { [[ -e /dev/tty ]] && (: </dev/tty) 2>/dev/null; }
}
