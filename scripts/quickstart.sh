#!/usr/bin/env bash
# From a clean checkout to an answer: builds everything, fetches the default model, then
#
#   scripts/quickstart.sh                       opens a chat
#   scripts/quickstart.sh "Why is the sky blue?"    answers and exits
#   echo "Why is the sky blue?" | scripts/quickstart.sh    the same, the prompt from stdin
#
# Only the answer goes to stdout. It can be run again: what is there already is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
    -*)  # no prompt: the answer would be a guess at what was meant
        sed -n '2,8s/^# \{0,1\}//p' scripts/quickstart.sh >&2
        [[ $1 == -h || $1 == --help ]] || exit 2
        exit 0
        ;;
esac
# shellcheck source=scripts/choose_python.sh
source scripts/choose_python.sh
# shellcheck source=scripts/system_packages.sh
source scripts/system_packages.sh

choose_python
mapfile -t missing < <(missing_packages)
install_packages "${missing[@]}"
scripts/build.sh </dev/null >&2
.venv/bin/orin-llm models pull smollm2 </dev/null >&2

bounded=(--max-tokens 512)  # so small a model may not find an end by itself
if [[ $# -gt 0 ]]; then
    exec .venv/bin/orin-llm run "${bounded[@]}" --prompt="$*"
elif [[ -t 0 ]]; then
    exec .venv/bin/orin-llm chat
else
    exec .venv/bin/orin-llm run "${bounded[@]}"
fi
