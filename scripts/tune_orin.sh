#!/usr/bin/env bash
# Tunes and checks every installed model on a board, unattended: doctor, setup check, then for each model `orin-llm tune`
# and `orin-llm accept`; one archive of all reports at the end. Goes on after a failure, and says so.
#
#   scripts/tune_orin.sh                        all models of the store, for the goal balanced
#   scripts/tune_orin.sh -m NAME [-m NAME…]     these models
#   scripts/tune_orin.sh -d DIR                 folder of the reports; again with the same one: goes on where it stopped
#   scripts/tune_orin.sh -- --goal ttft --time-limit 2h      what is behind -- is given to `orin-llm tune`
#
# Exit code: 0 all went well; 1 something failed; 2 wrong usage; 130 interrupted.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=${ORIN_LLM:-$root/.venv/bin/orin-llm}

fail() {
    echo "error: $*" >&2
    exit 2
}

models=() tune_flags=() folder=tune-orin
while [[ $# -gt 0 ]]; do
    case $1 in
        -m) [[ -n ${2:-} ]] || fail "-m needs the name of a model" && models+=("$2") && shift 2 ;;
        -d) [[ -n ${2:-} ]] || fail "-d needs a folder" && folder=$2 && shift 2 ;;
        -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 0 ;;
        --) shift && tune_flags=("$@") && break ;;
        *) fail "unknown option $1: see --help" ;;
    esac
done
[[ -x $program ]] || fail "$program is not there: scripts/setup_orin.sh plan builds it"
mkdir -p "$folder" || fail "the folder $folder cannot be made"
: >"$folder/summary.txt" || fail "nothing can be written to $folder"

failed=0 interrupted=0
trap 'interrupted=1' INT TERM HUP

note() {
    echo "$*" | tee -a "$folder/summary.txt"
}

# step NAME FILE COMMAND…: what it prints goes to FILE.txt and FILE.log; how it ended is noted.
step() {
    local name=$1 file=$2 began=$SECONDS code
    shift 2
    [[ $interrupted -eq 0 ]] || return 130
    mkdir -p "$(dirname "$folder/$file")"
    echo "$(date +%H:%M:%S) $name …" >&2
    "$@" 2>&1 >"$folder/$file.txt" </dev/null | tee -i "$folder/$file.log" >&2
    code=${PIPESTATUS[0]}
    [[ $code -ne 130 ]] || interrupted=1
    note "$(printf '%-32s exit %3d  %5d s  %s' "$name" "$code" $((SECONDS - began)) "$(verdict "$code" "$file")")"
    [[ $code -eq 0 ]] || failed=1
    return "$code"
}

# verdict CODE FILE: `ok`, or why not in the command's own words: its error, else the last line that it printed.
verdict() {
    if [[ $1 -eq 0 ]]; then
        echo ok
    elif [[ $1 -eq 130 ]]; then
        echo interrupted
    else
        echo "FAILED $(grep -m1 '^error: ' "$folder/$2.log" || tail -n1 "$folder/$2.txt")"
    fi
}

installed() {
    "$program" models list --json | tr -d '\n' | sed 's/"damaged":.*//' | grep -o '"name": "[^"]*"' | cut -d'"' -f4
}

note "$(date '+%Y-%m-%d %H:%M:%S') on $(uname -n), orin-llm of $root"
step doctor doctor "$program" doctor
step "setup check" setup "$program" setup plan
if [[ ${#models[@]} -eq 0 ]]; then
    mapfile -t models < <(installed)
fi
if [[ ${#models[@]} -eq 0 ]]; then
    note "no models: \`orin-llm models pull NAME\` fetches one"
    failed=1
fi
for model in ${models[@]+"${models[@]}"}; do
    [[ $interrupted -eq 0 ]] || break
    place=$(basename "$model" .gguf)
    step "tune $model" "$place/tune" "$program" tune "$model" --folder "$folder/$place/tune" \
        ${tune_flags[@]+"${tune_flags[@]}"}
    step "accept $model" "$place/accept" "$program" accept -m "$model" --evidence "$folder/$place/accept" --force
done
[[ $interrupted -eq 0 ]] || note "interrupted: the same command goes on"

archive=$folder/../$(basename "$(cd "$folder" && pwd)")-$(uname -n)-$(date +%Y%m%d-%H%M%S).tar.gz
if tar -czf "$archive.part" -C "$folder/.." "$(basename "$(cd "$folder" && pwd)")" && mv "$archive.part" "$archive"; then
    echo "reports: $(cd "$(dirname "$archive")" && pwd)/$(basename "$archive")"
else
    rm -f "$archive.part"
    echo "error: the archive cannot be written; the reports are in $folder" >&2
    failed=1
fi
[[ $interrupted -eq 0 ]] || exit 130
exit "$failed"
