#!/usr/bin/env bash
# Sets up everything that the tests need, then checks the style and runs every test.
#
#   scripts/test.sh [PYTEST_ARGUMENT...]
#
# Environment: JOBS (default: the number of processors): files of tests that run at the same time.
# A failed check does not stop the others; the exit status is that of all together.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/choose_python.sh
source scripts/choose_python.sh
# shellcheck source=scripts/system_packages.sh
source scripts/system_packages.sh

choose_python
mapfile -t missing < <(
    missing_packages
    command -v shellcheck >/dev/null || echo shellcheck
    command -v chromium >/dev/null || echo chromium # opens the reports
)
install_packages "${missing[@]}"
scripts/build.sh test,lint
PYTHONPATH=scripts .venv/bin/python -m native.stock
export PATH="$PWD/.venv/bin:$PATH"

failed=()
check() {
    local name=$1
    shift
    echo "== $name"
    "$@" || failed+=("$name")
}

# Where apt serves no arm64 packages there is no such machine: it is left out, and said.
emulated_arm() {
    local status=0
    scripts/arm64_check.sh module core disassembly glibc || status=$?
    if [[ $status -eq 4 ]]; then
        echo "not run: Arm cannot be emulated here" >&2
        status=0
    fi
    return "$status"
}

mapfile -t cpp < <(find cpp cuda scripts tests \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \))
check "ruff check" ruff check --quiet
check "ruff format" ruff format --check --quiet
check "mypy" mypy
check "clang-format" clang-format --dry-run -Werror "${cpp[@]}"
check "shellcheck" shellcheck scripts/*.sh .ci/run
check "preflight corpus under sanitizers" scripts/fuzz.sh corpus
check "core under sanitizers" scripts/sanitize.sh
check "kernels for every architecture" scripts/check_kernels.py
[[ $(uname -m) == aarch64 ]] || check "emulated Arm" emulated_arm
# A shell that runs this in the background ignores SIGINT, and so would every program under test.
at_once=(-n "${JOBS:-$(nproc)}" --dist loadfile)
check "pytest" env --default-signal=INT python -m pytest "${at_once[@]}" "$@"
check "emulated GPU" env PYTHONPATH=scripts python -m native.emulated
check "pytest on the emulated GPU" env --default-signal=INT ORIN_TEST_GPU=emulated python -m pytest "${at_once[@]}" tests/gpu

if [[ ${#failed[@]} -gt 0 ]]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
