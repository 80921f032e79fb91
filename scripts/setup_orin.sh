#!/usr/bin/env bash
# Sets a Jetson up for the toolkit: builds it if it is not there, then `orin-llm setup`.
#
#   scripts/setup_orin.sh plan|apply|revert [OPTION...]     see docs/setup.md
#
# `plan` changes nothing and needs no root; the others ask for it through sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/choose_python.sh
source scripts/choose_python.sh
# shellcheck source=scripts/system_packages.sh
source scripts/system_packages.sh

program=$PWD/.venv/bin/orin-llm
if [[ ! -x "$program" ]]; then
    choose_python
    mapfile -t missing < <(missing_packages)
    install_packages "${missing[@]}"
    scripts/build.sh </dev/null >&2
fi
case ${1:-} in
    apply | revert)
        if [[ $(id -u) -ne 0 ]]; then
            exec sudo "$program" setup "$@"
        fi
        ;;
esac
exec "$program" setup "$@"
