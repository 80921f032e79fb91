"""`orin-llm doctor`: what was built and why, what the machine has, what does not fit together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orin_llm import __version__

if TYPE_CHECKING:
    from orin_llm.device.build import Build
    from orin_llm.device.checkup import Finding
    from orin_llm.device.gpu import Gpu, Gpus
    from orin_llm.host.cpu import Cpu
    from orin_llm.host.memory import Memory


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what was built, what this machine has, and what does not fit together.

    Exit code 0: usable; 4: something that is needed is missing.
    """
    from orin_llm.device.build import build_info
    from orin_llm.device.checkup import check
    from orin_llm.device.gpu import find_gpus
    from orin_llm.errors import DeviceUnavailable
    from orin_llm.host.cpu import read_cpu
    from orin_llm.host.memory import read_memory
    from orin_llm.models.store import Store

    build, cpu, gpus, memory = build_info(), read_cpu(), find_gpus(), read_memory()
    findings = check(build, cpu, gpus, memory)
    store = Store()
    usable = all(finding.level != "missing" for finding in findings)
    if as_json:
        report = {
            "usable": usable,
            "build": build.to_json(),
            "cpu": cpu.to_json(),
            "gpus": [gpu.to_json() for gpu in gpus.usable],
            "gpu_problem": gpus.problem,
            "memory": memory.to_json(),
            "store": {"path": str(store.root), "models": store.names()},
            "findings": [{"level": f.level, "text": f.text} for f in findings],
        }
        print(json.dumps(report, indent=2))
    else:
        for name, value in lines(build, cpu, gpus, memory, store):
            print(f"{name:<10} {value}")
        print_findings(findings)
    if not usable:
        raise typer.Exit(DeviceUnavailable.exit_code)


def lines(build: Build, cpu: Cpu, gpus: Gpus, memory: Memory, store: Any) -> list[tuple[str, str]]:
    """The report, one line for each part."""
    return [
        ("orin-llm", build.version or __version__),
        ("build", build_line(build)),
        (
            "llama.cpp",
            f"{build.llama_cpp}, upstream {build.upstream_commit}" if build.llama_cpp else "?",
        ),
        ("processor", cpu_line(cpu)),
        (
            "GPU",
            "; ".join(gpu_line(gpu) for gpu in gpus.usable)
            or gpus.problem
            or "no NVIDIA GPU found",
        ),
        ("memory", memory_line(memory)),
        ("models", models_line(store)),
    ]


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
    from orin_llm.host.units import size_text

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
    from orin_llm.host.units import size_text

    text = f"{size_text(memory.available)} available of {size_text(memory.total)}"
    if memory.limited:
        text += " (a container's limit)"
    if memory.swap_total:
        text += f", swap {size_text(memory.swap_free)} free of {size_text(memory.swap_total)}"
    if memory.gpu_used is not None:
        text += f", {size_text(memory.gpu_used)} used by the GPU"
    return text


def models_line(store: Any) -> str:
    """Where the store is and what it holds."""
    from orin_llm.models.names import DEFAULT_MODEL

    names = store.names()
    text = f"{len(names)} in {store.root}"
    if DEFAULT_MODEL not in names:
        text += f" (fetch the default one: orin-llm models pull {DEFAULT_MODEL})"
    return text


def print_findings(findings: list[Finding]) -> None:
    """What to know, the worst first; in colour on a terminal."""
    from rich.console import Console
    from rich.text import Text

    styles = {"missing": "red", "warning": "yellow", "note": "dim"}
    console = Console(highlight=False)
    for finding in findings:
        text = Text.assemble((finding.level, styles[finding.level]), f": {finding.text}")
        console.print(text, soft_wrap=True)
