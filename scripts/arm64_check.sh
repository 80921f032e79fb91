#!/usr/bin/env bash
# Builds the product for a 64-bit Arm board, and runs and checks it under an emulator.
#
#   scripts/arm64_check.sh                     all steps
#   scripts/arm64_check.sh module wheel        these
#   scripts/arm64_check.sh --json FILE         what was found, also as JSON
#   scripts/arm64_check.sh --help
#
# Environment: PYTHON (where there is no .venv; default python3), ORIN_LLM_CACHE, ORIN_LLM_MODELS, ORIN_LLM_SOURCE,
# CMAKE_BUILD_PARALLEL_LEVEL (programs at once).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/choose_python.sh
source "$root/scripts/choose_python.sh"
# shellcheck source=scripts/system_packages.sh
source "$root/scripts/system_packages.sh"

if [[ $(uname -m) == aarch64 ]]; then
    echo "error: this is an Arm machine, which needs no emulator: scripts/test.sh checks it as it is" >&2
    exit 4
fi
export PYTHONPATH=$root:$root/scripts${PYTHONPATH:+:$PYTHONPATH}
if [[ ! -x $root/.venv/bin/orin-llm ]]; then # what is wrong with the call is told before the long build
    own_python "$root"
    said=$("$PROGRAM" -m arm64_check "$@" --check-call) || exit
    [[ -z $said ]] || { echo "$said"; exit; } # --help
fi
mapfile -t missing < <(
    command -v qemu-aarch64 >/dev/null || echo qemu-user
    command -v aarch64-linux-gnu-g++ >/dev/null || echo g++-aarch64-linux-gnu
    command -v aarch64-linux-gnu-objdump >/dev/null || echo binutils-aarch64-linux-gnu
)
install_packages "${missing[@]}" || exit 4
[[ -x $root/.venv/bin/orin-llm ]] || "$root/scripts/build.sh"
exec "$root/.venv/bin/python" -m arm64_check "$@"
