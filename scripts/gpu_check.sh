#!/usr/bin/env bash
# Builds, checks and times everything on a machine with an NVIDIA GPU, and writes one JSON file.
#
#   scripts/gpu_check.sh                       all; again: what is not done yet
#   scripts/gpu_check.sh --minutes 9           as much as there is time for
#   scripts/gpu_check.sh --only decode         a step, or a group of them
#   scripts/gpu_check.sh --report FILE.json    the tables for docs/performance.md
#   scripts/gpu_check.sh --help
#
# Environment: PYTHON (where there is no .venv; default python3), ORIN_LLM_SOURCE, ORIN_LLM_CUDA_ARCH, ORIN_LLM_CACHE.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/choose_python.sh
source "$root/scripts/choose_python.sh"

own_python "$root"
export PYTHONPATH=$root:$root/scripts${PYTHONPATH:+:$PYTHONPATH}
exec "$PROGRAM" -m gpu_check "$@"
