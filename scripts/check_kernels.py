#!/usr/bin/env python3
"""Compiles all kernels for every supported architecture, and holds them to cuda/budgets.toml.

    scripts/check_kernels.py [--json | --table] [--nvcc PATH]

Needs nvcc, but neither a GPU nor cuBLAS; where there is no nvcc it says so and does nothing.
Warnings are errors. Each release of nvcc uses other registers: those of the budgets are of one of
them, and with any other, kernels that use more are told, but only spills fail.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from native.errors import BuildError
from native.llama import ccache_environment
from native.mangled import plain_name
from native.toolkits import find_nvcc, nvcc_version
from orin_llm.host.toml_file import read_toml
from orin_llm.upstream import cache_dir

ARCHITECTURES = ("80", "87", "90")
BUDGETS_NVCC = "13.0"
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-Xptxas=-v",
    "-Werror=all-warnings",
    "-Xcompiler=-fPIC,-fvisibility=hidden",
)
_ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\w+)'")
_SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class Use:
    """What an instance of a kernel uses on an architecture."""

    kernel: str
    architecture: str
    registers: int
    spilled_bytes: int


@dataclass(frozen=True)
class Budget:
    """The most that a kernel may use."""

    registers: int
    spilled_bytes: int = 0


def compile_command(nvcc: str, include: Path, architecture: str) -> list[str]:
    """Without source and output. Whoever uses the same one finds the result in ccache."""
    return [nvcc, *_FLAGS, f"-I{include}", f"-arch=sm_{architecture}"]


def compile_all(nvcc: str, sources: list[Path], include: Path) -> list[Use]:
    """Compile each source for each architecture.

    Raises:
        BuildError: the compiler refuses one, or warns.
    """
    cache = shutil.which("ccache")
    environment = {**os.environ, **ccache_environment(cache_dir(), ROOT)}
    jobs = [(source, architecture) for source in sources for architecture in ARCHITECTURES]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:

        def compile_one(job: tuple[Path, str]) -> list[Use]:
            source, architecture = job
            out = f"{folder}/{source.stem}.{architecture}.o"
            command = [cache] if cache else []
            command += compile_command(nvcc, include, architecture)
            command += ["-c", str(source), "-o", out, "-MD", "-MF", f"{out}.make"]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT
            )
            said = done.stdout + done.stderr
            if done.returncode != 0:
                raise BuildError(f"{source.name} for sm_{architecture}: {said.strip()}")
            return list(read_report(said))

        return [use for uses in pool.map(compile_one, jobs) for use in uses]


def read_report(text: str) -> Iterator[Use]:
    """What ptxas says of each kernel that it compiles."""
    name = architecture = ""
    spilled = 0
    for line in text.splitlines():
        if entry := _ENTRY.search(line):
            name, architecture, spilled = entry[1], entry[2], 0
        elif spill := _SPILL.search(line):
            spilled = int(spill[1]) + int(spill[2])
        elif used := _USED.search(line):
            yield Use(plain_name(name), architecture, int(used[1]), spilled)


def read_budgets(path: Path) -> dict[str, Budget]:
    """The budgets by the kernel's name."""
    return {name: Budget(**values) for name, values in read_toml(path).items()}


def excesses(uses: list[Use], budgets: dict[str, Budget]) -> Iterator[str]:
    """What spills more than its budget, has none, or is a budget of nothing."""
    for use in uses:
        budget = budgets.get(use.kernel)
        where = f"{use.kernel} on sm_{use.architecture}"
        if budget is None:
            yield f"{where} has no budget: add [{use.kernel}] with registers = {use.registers}"
        elif use.spilled_bytes > budget.spilled_bytes:
            yield (
                f"{where} spills {use.spilled_bytes} bytes, its budget is {budget.spilled_bytes}"
            )
    for name in budgets.keys() - {use.kernel for use in uses}:
        yield f"[{name}] is a budget of no kernel"


def more_registers(uses: list[Use], budgets: dict[str, Budget]) -> Iterator[str]:
    """What uses more registers than its budget allows."""
    for use in uses:
        budget = budgets.get(use.kernel)
        if budget and use.registers > budget.registers:
            where = f"{use.kernel} on sm_{use.architecture}"
            yield f"{where} uses {use.registers} registers, its budget is {budget.registers}"


def judge(uses: list[Use], budgets: dict[str, Budget], version: str) -> tuple[list[str], bool]:
    """What to tell of the kernels as this nvcc compiles them, and whether they pass."""
    wrong, more = list(excesses(uses, budgets)), list(more_registers(uses, budgets))
    if version == BUDGETS_NVCC:
        return more + wrong, not (more or wrong)
    note = f"nvcc {version}: the registers of the budgets are those of {BUDGETS_NVCC}"
    return [note, *more, *wrong], not wrong


def table(uses: list[Use]) -> Iterator[str]:
    """A line of Markdown for each kernel: the registers of the instance that has most."""
    yield f"| kernel | {' | '.join(f'sm_{name}' for name in ARCHITECTURES)} |"
    yield "|---" * (1 + len(ARCHITECTURES)) + "|"
    for kernel in sorted({use.kernel for use in uses}):
        most = (
            max(u.registers for u in uses if (u.kernel, u.architecture) == (kernel, architecture))
            for architecture in ARCHITECTURES
        )
        yield f"| {kernel} | {' | '.join(map(str, most))} |"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the kernels, compare with their budgets.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print what each kernel uses")
    how.add_argument("--table", action="store_true", help="the same, the most, for docs/kernels.md")
    parser.add_argument("--nvcc", metavar="PATH", help="another one than a build would try first")
    arguments = parser.parse_args()
    try:
        nvcc = arguments.nvcc or find_nvcc()
    except BuildError as missing:
        print(f"kernels not compiled: {missing}", file=sys.stderr)
        return 0
    try:
        version = nvcc_version(nvcc)
        uses = compile_all(nvcc, sorted((ROOT / "cuda").glob("*.cu")), ROOT / "cuda")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps([asdict(use) for use in uses], indent=2))
    if arguments.table:
        print("\n".join(table(uses)))
    told, good = judge(uses, read_budgets(ROOT / "cuda/budgets.toml"), version)
    for line in told:
        print(line, file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
