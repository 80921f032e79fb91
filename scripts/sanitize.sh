#!/usr/bin/env bash
# Runs the property tests of the core (cpp/attention, cpp/pages, cpp/scheduler, cpp/sampling, the engine's thread, the
# reader of model files), which need no llama.cpp.
#
#   scripts/sanitize.sh            all under the address and undefined-behaviour sanitizers, then those that start
#                                  threads under the thread sanitizer
#   scripts/sanitize.sh long N     optimized, without sanitizers, N operations a program
#   scripts/sanitize.sh for FLAG…  optimized, without sanitizers, with flags that name a processor
#
# Environment: CXX (default c++), JOBS (default: the number of processors), EMULATOR (the command that starts a program
# which CXX has made for another processor).
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/core
jobs=${JOBS:-$(nproc)}
engine=(cpp/engine/{core,core_step,core_collect,logits_computer,ledger,runner,completion,mailbox}.cpp)
loader=(cpp/loader/{data_file,pipeline,read_plan}.cpp cpp/gguf/error.cpp)
export CXX=${CXX:-c++} EMULATOR=${EMULATOR:-}
CCACHE=$(command -v ccache || true)
export CCACHE
flags=(-std=c++17 -g1 -Wall -Wextra -Wshadow -ffp-contract=off -fno-omit-frame-pointer -pthread -Icpp)
portable=()
[[ $(uname -m) != x86_64 ]] || portable=(-march=x86-64-v3) # attention has vector code only

# run_tests NAME PATTERN OPERATIONS FLAG…: builds the programs tests/core/test_PATTERN.cpp with these flags, runs them.
run_tests() {
    local name=$1 count=$3 tests
    mapfile -t tests < <(compgen -G "tests/core/test_$2.cpp")
    shift 3
    rm -rf "${build:?}/$name"  # objects of files that are gone
    mkdir -p "$build/$name"
    # shellcheck disable=SC2016  # expanded by the inner shells
    find cpp/attention cpp/pages cpp/scheduler cpp/sampling "${engine[@]}" "${loader[@]}" "${tests[@]}" -name '*.cpp' -print0 |
        xargs -0 -P "$jobs" -I{} bash -c '
            object=$1/$(tr / _ <<<"$2").o
            ${CCACHE:+"$CCACHE"} "$CXX" "${@:3}" -c "$2" -o "$object"' build "$build/$name" {} "${flags[@]}" "$@"
    # shellcheck disable=SC2016
    printf '%s\0' "${tests[@]}" |
        xargs -0 -P "$jobs" -I{} bash -c '
            program=$1/$(basename "$3" .cpp)
            "$CXX" "${@:4}" "$1"/cpp_*.o "$1/$(tr / _ <<<"$3").o" -o "$program"
            echo "$program"
            eval "$EMULATOR \"\$program\" $2"' run "$build/$name" "$count" {} "${flags[@]}" "$@"
}

case ${1:-} in
    '')
        run_tests address '*' '' "${portable[@]}" -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
        run_tests thread '*_threads' '' "${portable[@]}" -O1 -fsanitize=thread
        ;;
    long)
        [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "usage: scripts/sanitize.sh long N" >&2; exit 2; }
        run_tests long '*' "$2" "${portable[@]}" -O2
        ;;
    for)
        run_tests for '*' '' -O2 "${@:2}"
        ;;
    *)
        sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
