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

program=$root/.venv/bin/python
if [[ ! -x $program ]]; then
    # shellcheck source=scripts/choose_python.sh
    source "$root/scripts/choose_python.sh"
    none="error: no python3: sudo apt-get install python3 python3-venv"
    program=$(cd "$root" && choose_python && { command -v "$PYTHON" || { echo "$none" >&2; exit 1; }; }) || exit 4
fi
export PYTHONPATH=$root:$root/scripts${PYTHONPATH:+:$PYTHONPATH}
exec "$program" -m board_check "$@"
