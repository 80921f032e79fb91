#!/usr/bin/env bash
# Runs the property tests of the core (cpp/pages, cpp/scheduler, cpp/sampling), which need no llama.cpp.
#
#   scripts/sanitize.sh            under the address and undefined-behaviour sanitizers, then under the thread sanitizer
#   scripts/sanitize.sh long N     optimized, without sanitizers, N operations a program
#
# Environment: CXX (default g++), JOBS.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/core
flags=(-std=c++17 -g -Wall -Wextra -Wshadow -ffp-contract=off -fno-omit-frame-pointer -pthread -Icpp)

# run_all NAME OPERATIONS FLAG…: builds every program with these flags and runs it.
run_all() {
    local name=$1 count=$2 test program
    shift 2
    mkdir -p "$build/$name"
    # shellcheck disable=SC2016  # expanded by the inner shell
    find cpp/pages cpp/scheduler cpp/sampling tests/core -name '*.cpp' -print0 |
        xargs -0 -P "${JOBS:-2}" -I{} bash -c '
            object=$1/$(tr / _ <<<"$2").o
            "${CXX:-g++}" "${@:3}" -c "$2" -o "$object"' build "$build/$name" {} "${flags[@]}" "$@"
    for test in tests/core/test_*.cpp; do
        program=$build/$name/$(basename "$test" .cpp)
        "${CXX:-g++}" "${flags[@]}" "$@" "$build/$name"/cpp_*.o "$build/$name/$(tr / _ <<<"$test").o" -o "$program"
        echo "$name: $(basename "$program")"
        "$program" ${count:+"$count"}
    done
}

case ${1:-} in
    '')
        run_all address '' -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
        run_all thread 20000 -O1 -fsanitize=thread
        ;;
    long)
        [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "usage: scripts/sanitize.sh long N" >&2; exit 2; }
        run_all long "$2" -O2
        ;;
    *)
        sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
