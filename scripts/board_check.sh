#!/usr/bin/env bash
# Collects on a Jetson what only a board can tell, in one archive without names and serial numbers.
#
#   scripts/board_check.sh                       all, in 30 minutes at most; again: what is not done yet
#   scripts/board_check.sh --minutes 10          as much as there is time for
#   scripts/board_check.sh --model FILE.gguf     measures this model, too
#   scripts/board_check.sh --help                docs/board-check.md says more
#
# Environment: PYTHON (where there is no .venv; default python3), and that of scripts/build.sh.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

# shellcheck source=scripts/choose_python.sh
source "$root/scripts/choose_python.sh"

own_python "$root"
export PYTHONPATH=$root:$root/scripts${PYTHONPATH:+:$PYTHONPATH}
exec "$PROGRAM" -m board_check "$@"
