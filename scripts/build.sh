#!/usr/bin/env bash
# Makes .venv when it is missing, installs the package into it (editable), and rebuilds the
# extension module: only what changed is compiled.
#
#   scripts/build.sh [EXTRAS]     EXTRAS: a list such as test,lint; kept on later calls
#
# Environment: PYTHON (default: python3, or a newer one where that is too old), ORIN_LLM_CUDA,
# ORIN_LLM_CUDA_ARCH, ORIN_LLM_CUDA_VMM, ORIN_LLM_NATIVE, ORIN_LLM_CACHE, ORIN_LLM_SOURCE.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/choose_python.sh
source scripts/choose_python.sh

extras=${1:-}
if [[ $extras == -* ]]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' scripts/build.sh >&2
    [[ $extras == -h || $extras == --help ]] || exit 2
    exit 0
fi
exec 9<scripts/build.sh # two at once would break .venv
flock -n 9 || { echo "another build of this checkout is at work: waiting for it" >&2; flock 9; }

python=.venv/bin/python
pip=("$python" -m pip --disable-pip-version-check -qq install)

if ! { "$python" scripts/check_python.py && "$python" -m pip --version; } >/dev/null 2>&1; then
    choose_python
    echo "making .venv" >&2
    "$PYTHON" -m venv --clear .venv ||
        { echo "error: no venv module. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
fi

fetch() {
    "${pip[@]}" "$@" && return
    echo "error: pip could not install what is needed, for the reason above. Without a network: what pip" \
        "is to use instead of an index is set by PIP_INDEX_URL, or by PIP_FIND_LINKS and PIP_NO_INDEX=1" >&2
    exit 1
}

# What is installed is recorded by extras, under the hash of what decides it.
wanted=$(cat pyproject.toml setup.py | sha256sum | cut -d' ' -f1)
record=.venv/installed-${extras:-base}
needs_install=true
[[ "$(cat "$record" 2>/dev/null)" == "$wanted" ]] && needs_install=false

if $needs_install; then
    echo "installing the build tools" >&2
    mapfile -t build_needs < <(sed -n '/^requires = \[/,/^\]/s/^ *"\(.*\)",.*/\1/p' pyproject.toml)
    fetch "${build_needs[@]}"
fi
PYTHONPATH=scripts "$python" -m native.module
if $needs_install; then
    echo "installing the Python packages" >&2
    fetch --no-build-isolation --editable ".${extras:+[$extras]}"
    echo "$wanted" | tee .venv/installed-base >"$record"
fi
