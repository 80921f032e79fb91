"""The step that runs the C++ programs of tests/core, which need no llama.cpp and no Python.

An emulator on x86 keeps the order of loads and stores more strictly than an Arm processor does, so
that threads which miss a barrier may pass here.
"""

from __future__ import annotations

import re
import shlex

from arm64_check.steps import CheckFailed, Emulated, Found, run_program
from checking.checkout import ROOT
from native.llama import ccache_environment
from native.toolchain import PORTABLE_FLAGS
from orin_llm.upstream import cache_dir

_PROGRAM = re.compile(r"^build/core/\S+/(test_\w+)$", re.MULTILINE)
_OPERATIONS = re.compile(r"^(\d+) operations\b", re.MULTILINE)


def core(machine: Emulated) -> Found:
    """All of them, those with threads too; each ends at the first thing that is not so."""
    done = run_program(
        ["scripts/sanitize.sh", "for", *PORTABLE_FLAGS["aarch64"]],
        env={
            "CXX": f"{machine.tools}g++",
            "EMULATOR": shlex.join(machine.emulator),
            **ccache_environment(cache_dir(), ROOT),
        },
    )
    ran, missed = programs_run(done.stdout)
    if missed:
        raise CheckFailed(f"scripts/sanitize.sh has not run {', '.join(missed)}")
    operations = sum(int(count) for count in _OPERATIONS.findall(done.stdout))
    return {"programs": len(ran), "operations": operations}


def programs_run(out: str) -> tuple[list[str], list[str]]:
    """Those that scripts/sanitize.sh says it has run, and those that it has not."""
    ran = set(_PROGRAM.findall(out))
    return sorted(ran), sorted({path.stem for path in ROOT.glob("tests/core/test_*.cpp")} - ran)
