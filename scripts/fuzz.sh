#!/usr/bin/env bash
# Fuzzes the preflight of model files (cpp/gguf), alone and under sanitizers.
#
#   scripts/fuzz.sh corpus         runs the committed corpus; needs g++ or clang++
#   scripts/fuzz.sh run SECONDS    looks for new faults with libFuzzer; needs clang++ and its runtime
#   scripts/fuzz.sh keep           adds what the last run found to the corpus, as few and small files as reach the same
#
# Environment: CXX.
set -euo pipefail
cd "$(dirname "$0")/.."

corpus=tests/fuzz/corpus
build=build/fuzz
flags=(-std=c++17 -g -O1 -fno-omit-frame-pointer -fno-sanitize-recover=all)
longest=16384

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# The compiler asked for, or the first of these that is there.
find_compiler() {
    local name
    for name in ${CXX:+"$CXX"} "$@"; do
        command -v "$name" && return
    done
    echo "error: none of $* is installed. On Debian or Ubuntu: apt-get install clang" >&2
    exit 1
}

# build_target OUTPUT COMPILER [ARGUMENT…]: the target with every source of the preflight.
build_target() {
    local output=$1 compiler=$2
    shift 2
    mkdir -p "$build"
    "$compiler" "${flags[@]}" "$@" tests/fuzz/fuzz_gguf.cpp cpp/gguf/*.cpp -o "$output"
}

build_fuzzer() {
    local compiler
    compiler=$(CXX='' find_compiler clang++)
    build_target "$build/fuzzer" "$compiler" -fsanitize=fuzzer,address,undefined
}

case ${1:-} in
    corpus)
        compiler=$(find_compiler clang++ g++)
        build_target "$build/run_corpus" "$compiler" -fsanitize=address,undefined tests/fuzz/run_corpus.cpp
        "$build/run_corpus" "$corpus"
        ;;
    run)
        [[ ${2:-} =~ ^[0-9]+$ ]] || usage
        build_fuzzer
        mkdir -p "$build/found" "$corpus"
        "$build/fuzzer" -max_total_time="$2" -max_len=$longest -timeout=10 -malloc_limit_mb=16 -print_final_stats=1 \
            -use_value_profile=1 -dict=tests/fuzz/gguf.dict -artifact_prefix="$build/" "$build/found" "$corpus"
        ;;
    keep)
        build_fuzzer
        rm -rf "$build/merged"
        mkdir "$build/merged"
        "$build/fuzzer" -set_cover_merge=1 -use_counters=0 -max_len=$longest "$build/merged" "$corpus" "$build/found"
        rm -rf "$corpus"
        mv "$build/merged" "$corpus"
        ;;
    *)
        usage
        ;;
esac
