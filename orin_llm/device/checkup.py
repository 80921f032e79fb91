"""Does what was built suit the machine it runs on? What doctor finds, without how it is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from orin_llm.device.build import Build
from orin_llm.device.gpu import Gpus
from orin_llm.host.cpu import Cpu
from orin_llm.host.memory import Memory
from orin_llm.host.units import size_text

LOW_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True)
class Finding:
    """Something to know; `missing` means that orin-llm cannot work before it is put right."""

    level: Literal["missing", "warning", "note"]
    text: str


def check(build: Build, cpu: Cpu, gpus: Gpus, memory: Memory) -> list[Finding]:
    """Everything that does not fit together, the worst first."""
    findings = [*_build(build, cpu), *_gpu(build, gpus), *_memory(memory)]
    order = {"missing": 0, "warning": 1, "note": 2}
    return sorted(findings, key=lambda finding: order[finding.level])


def _build(build: Build, cpu: Cpu) -> list[Finding]:
    if build.problem:
        return [Finding("missing", build.problem)]
    lacking = [flag for flag in build.cpu_flags if flag not in cpu.features]
    if lacking:
        text = (
            f"the build uses {', '.join(lacking)}, which this processor lacks: build it here "
            "again, or with ORIN_LLM_NATIVE=off for any machine"
        )
        return [Finding("missing", text)]
    if not build.native:
        text = "built for a portable baseline: a build without ORIN_LLM_NATIVE=off is faster"
        return [Finding("note", text)]
    return []


def _gpu(build: Build, gpus: Gpus) -> list[Finding]:
    if build.problem:
        return []
    findings = []
    if gpus.problem:
        findings.append(Finding("warning", gpus.problem))
    if gpus.usable and not build.cuda:
        text = (
            f"the {gpus.usable[0].name} is not used: this build is CPU only, because {build.why}. "
            "ORIN_LLM_CUDA=on insists on CUDA and says what it lacks"
        )
        findings.append(Finding("warning", text))
    if build.cuda and not gpus.usable and not gpus.problem:
        findings.append(Finding("warning", "built with CUDA, but no GPU is found: the CPU is used"))
    for gpu in gpus.usable if build.cuda else ():
        capability = gpu.compute_capability
        if capability and not runs_on(build.cuda_architectures, capability):
            text = (
                f"built for the CUDA architectures {build.cuda_architectures}, which the "
                f"{gpu.name} ({capability}) cannot run: build again with "
                f"ORIN_LLM_CUDA_ARCH={capability.replace('.', '')}-real"
            )
            findings.append(Finding("warning", text))
    return findings


def runs_on(architectures: str, compute_capability: str) -> bool:
    """Can a GPU run code built for CMake's list of architectures, such as `80-virtual;87-real`?

    Binary code (`-real`, or without suffix) runs on the same major version, from its minor version
    on; intermediate code (`-virtual`, or without suffix) on anything as new or newer. Architectures
    with a letter (`90a`) run on exactly theirs.
    """
    major, _, minor = compute_capability.partition(".")
    gpu = int(major) * 10 + int(minor or 0)
    for item in re.split(r"[;,\s]+", architectures.strip()):
        match = re.fullmatch(r"(\d+)([a-z]?)(-real|-virtual)?", item)
        if not match:
            continue
        built, letter, kind = int(match[1]), match[2], match[3]
        if letter:
            if built == gpu:
                return True
            continue
        if kind != "-virtual" and built // 10 == gpu // 10 and built <= gpu:
            return True
        if kind != "-real" and built <= gpu:
            return True
    return architectures.strip() in ("native", "all", "all-major")


def _memory(memory: Memory) -> list[Finding]:
    if memory.available < LOW_MEMORY_BYTES:
        text = f"only {size_text(memory.available)} of memory are available"
        return [Finding("warning", text)]
    return []
