"""What `orin-llm doctor` prints for people: the machine, part by part, then what was found."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from orin_llm import __version__
from orin_llm.cli.paragraphs import output_width, print_paragraph, wrapped
from orin_llm.cli.render import tolerate_narrow_encoding, visible
from orin_llm.closeable import Closeable
from orin_llm.device.board import Board
from orin_llm.device.build import Build
from orin_llm.device.gpu import Gpu
from orin_llm.doctor.finding import LEVELS, Finding
from orin_llm.doctor.machine import Machine
from orin_llm.explain.guide import entries_of_check
from orin_llm.host.cpu import Cpu
from orin_llm.host.memory import Memory
from orin_llm.host.units import size_text
from orin_llm.models.names import DEFAULT_MODEL
from orin_llm.models.store import Store

_STYLES = {
    "missing": "bold red",
    "hurts": "red",
    "warning": "yellow",
    "note": "cyan",
    "unknown": "dim",
    "ok": "green",
}
_COUNTED = {
    "hurts": ("hurts", "hurt"),
    "warning": ("warning", "warnings"),
    "note": ("note", "notes"),
}
_EXPLAINED = ("missing", "hurts", "warning")
_FACT_CELLS = 11
_LEVEL_CELLS = 9
_LEAST_LAST_COLUMN = 40  # cells; with less the text goes under the check's name


class StepLine(Closeable):
    """One line on stderr that says what is being done, on a terminal only; it goes away."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._shown = 0

    def show(self, step: str) -> None:
        """Say what is done next."""
        if self._on_terminal:  # no longer than a row, or it could not be taken away
            self._write(f"{visible(step)} …"[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        self._shown = max(self._shown, len(text))  # before Ctrl-C can come in between
        sys.stderr.write(f"\r{text:<{self._shown}}\r")
        sys.stderr.flush()

    def close(self) -> None:
        """Take it away."""
        if self._shown:
            self._write("")


def print_doctor(machine: Machine, store: Store, findings: Sequence[Finding]) -> None:
    """The machine, the findings, and their sum."""
    tolerate_narrow_encoding(sys.stdout)
    console = Console(highlight=False)
    width = output_width()
    for name, value in facts(machine, store):
        print_paragraph(value, name, _FACT_CELLS)
    print()
    check_cells = max(len(finding.check) for finding in findings) + 2
    for finding in findings:
        for styled in _lines(finding, check_cells, width):
            console.print(styled, soft_wrap=True)
    print()
    print_paragraph(total(findings, machine))


def _lines(finding: Finding, check_cells: int, width: int) -> Iterator[Text]:
    """A row of the table; where it is narrow, the text under the check's name."""
    level = (f"{finding.level:<{_LEVEL_CELLS}}", _STYLES[finding.level])
    indent = _LEVEL_CELLS + check_cells
    texts = [finding.found]
    texts += [f"expected: {finding.expected}"] if finding.expected else []
    texts += [f"to do: {finding.fix}"] if finding.fix else []
    if finding.level in _EXPLAINED and (entries := entries_of_check(finding.check)):
        texts.append(f"more: orin-llm explain {entries[0].name}")
    if width - indent < _LEAST_LAST_COLUMN:
        indent = _LEVEL_CELLS
        yield Text.assemble(level, finding.check)
        rows = [row for text in texts for row in wrapped(text, width - indent)]
    else:
        first, *rows = [row for text in texts for row in wrapped(text, width - indent)]
        yield Text.assemble(level, f"{finding.check:<{check_cells}}", first)
    for row in rows:
        yield Text(" " * indent + row)


def total(findings: Sequence[Finding], machine: Machine) -> str:
    """`2 hurt, 1 warning, 3 unknown, 14 ok`, and what would make the unknown known."""
    counts = Counter(finding.level for finding in findings)
    words = {level: _COUNTED.get(level, (level, level)) for level in LEVELS}
    parts = [
        f"{counts[level]} {words[level][counts[level] > 1]}" for level in LEVELS if counts[level]
    ]
    as_root = machine.as_root("doctor")
    needs_root = any(f.level == "unknown" and as_root in f.fix for f in findings)
    return ", ".join(parts) + (f" (run as root: {as_root})" if needs_root else "")


def facts(machine: Machine, store: Store) -> Iterator[tuple[str, str]]:
    """What was built and what there is, one line for each part."""
    build, board, gpus = machine.build, machine.board, machine.gpus
    yield "orin-llm", build.version or __version__
    yield "build", build_line(build)
    yield (
        "llama.cpp",
        f"{build.llama_cpp}, upstream {build.upstream_commit}" if build.llama_cpp else "?",
    )
    if board.is_jetson:
        yield "board", board_line(board)
        yield (
            "L4T",
            board.l4t + (f" (JetPack {board.jetpack})" if board.jetpack else "")
            if (board.l4t)
            else "?",
        )
        yield "power mode", machine.power.now.name if machine.power.now else "?"
    yield "processor", cpu_line(machine.cpu)
    yield (
        "GPU",
        "; ".join(gpu_line(gpu) for gpu in gpus.usable) or gpus.problem or "no NVIDIA GPU found",
    )
    yield "memory", memory_line(machine.memory)
    yield "models", models_line(store)


def board_line(board: Board) -> str:
    """Its name, and its module where that tells more."""
    return f"{board.name}, {board.module.name}" if board.module else board.name


def build_line(build: Build) -> str:
    """What was built and why, in one line."""
    if build.problem:
        return "not usable"
    target = "this processor" if build.native else "a portable baseline"
    if build.cuda:
        return (
            f"CPU and CUDA {build.cuda_version} (architectures {build.cuda_architectures}), for "
            f"{target}: {build.why}"
        )
    return f"CPU only, because {build.why}; for {target}"


def cpu_line(cpu: Cpu) -> str:
    """Model, cores, instruction sets."""
    cores = f"{cpu.physical_cores} cores"
    if cpu.logical_cores != cpu.physical_cores:
        cores += f" ({cpu.logical_cores} threads)"
    if cpu.quota is not None:
        cores += f", limited to {cpu.quota:g}"
    features = " ".join(cpu.features) or "no known features"
    return f"{cpu.model} ({cpu.architecture}), {cores}: {features}"


def gpu_line(gpu: Gpu) -> str:
    """Name, capability, memory."""
    parts = [gpu.name]
    if gpu.compute_capability:
        parts.append(f"compute capability {gpu.compute_capability}")
    if gpu.integrated:
        parts.append("shares the machine's memory")
    elif gpu.total_bytes is not None and gpu.free_bytes is not None:
        parts.append(f"{size_text(gpu.free_bytes)} free of {size_text(gpu.total_bytes)}")
    if gpu.driver:
        parts.append(f"driver {gpu.driver}")
    return ", ".join(parts)


def memory_line(memory: Memory) -> str:
    """Available, total, swap, the GPU's share."""
    text = f"{size_text(memory.available)} available of {size_text(memory.total)}"
    if memory.limited:
        text += " (a container's limit)"
    if memory.swap_total:
        text += f", swap {size_text(memory.swap_free)} free of {size_text(memory.swap_total)}"
    if memory.gpu_used is not None:
        text += f", {size_text(memory.gpu_used)} used by the GPU"
    return text


def models_line(store: Store) -> str:
    """Where the store is and what it holds."""
    names = store.names()
    text = f"{len(names)} in {store.root}"
    if DEFAULT_MODEL not in names:
        text += f" (fetch the default one: orin-llm models pull {DEFAULT_MODEL})"
    return text
