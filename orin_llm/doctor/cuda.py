"""Does CUDA answer, in which way can memory be had from it, and how fast is it?"""

from __future__ import annotations

from collections.abc import Iterator

from orin_llm.device.probes.cuda_child import MOST_BYTES, POOL_BYTES
from orin_llm.doctor.finding import Finding, Level
from orin_llm.doctor.machine import Machine
from orin_llm.host.units import size_text

_LEAST_OF_TRIED = 0.5
# Of the memory's bandwidth. Published decoding on an AGX Orin reaches 57 to 79 % of it, and a plain
# copy reads and writes whole rows.
LEAST_COPY_SHARE = 0.6


def driver(machine: Machine) -> Iterator[Finding]:
    """The driver starts, and is not older than what the build was made with."""
    probe, build = machine.cuda, machine.build
    if probe is None:
        return
    if probe.problem:
        level: Level = "hurts" if machine.gpus.usable else "warning"
        fix = ""
        if machine.board.is_jetson:
            fix = "in a container: start it with `--runtime nvidia`; else install nvidia-jetpack"
        yield Finding("CUDA driver", level, probe.problem, "a driver that answers", fix)
    elif build.cuda and 0 < _major(probe.driver) < _major(build.cuda_version):
        yield Finding(
            "CUDA driver",
            "hurts",
            f"the driver is for CUDA {probe.driver}, the build is of {build.cuda_version}",
            expected=f"a driver for CUDA {_major(build.cuda_version)} or newer",
            fix=f"build again with CUDA {_major(probe.driver)}, or update the driver",
        )
    else:
        version = probe.driver or "of a version that it does not tell"
        found = f"CUDA {version}: {probe.name}, compute capability {probe.compute_capability}"
        yield Finding("CUDA driver", "ok", found)


def _major(version: str) -> int:
    """0 where nothing tells."""
    major = version.partition(".")[0]
    return int(major) if major.isdecimal() else 0


def virtual_memory(machine: Machine) -> Iterator[Finding]:
    """llama.cpp's pool takes a range of addresses and fills it as it grows; or it cannot."""
    probe, check = machine.cuda, "CUDA allocator"
    if probe is None or probe.problem:
        return
    if probe.vmm:
        yield Finding(check, "ok", "virtual memory: the pool grows with use")
    elif probe.vmm is None:
        yield Finding(check, "unknown", probe.vmm_problem or "virtual memory was not tried")
    elif probe.vmm_problem.startswith("cu"):  # a call that should have succeeded
        yield Finding(
            check,
            "hurts" if machine.build.cuda else "warning",
            f"virtual memory fails, and a model does not load: {probe.vmm_problem}",
            expected=f"addresses for a pool of {size_text(POOL_BYTES)}, as llama.cpp takes them",
            fix="reboot and look again; if it stays so, build with llama.cpp's other allocator, "
            "some 2 % slower: ORIN_LLM_CUDA_VMM=off scripts/build.sh",
        )
    else:
        found = "no virtual memory: memory is taken block by block, and does not grow"
        yield Finding(check, "note", f"{found} ({probe.vmm_problem})")


def kv_memory(machine: Machine) -> Iterator[Finding]:
    """An engine's KV cache takes memory as it grows, or all of it at the start."""
    probe, check = machine.cuda, "KV cache"
    if probe is None or probe.problem:
        return
    if probe.kv_grows:
        yield Finding(check, "ok", "virtual memory: an engine's KV cache grows with use")
    elif probe.kv_grows is None:
        yield Finding(check, "unknown", probe.kv_problem or "virtual memory was not tried")
    else:
        yield Finding(
            check,
            "note",
            "one allocation: an engine takes all memory of its KV cache at the start, and gives "
            f"none back ({probe.kv_problem})",
            fix="--kv-memory says how much that is",
        )


def largest_block(machine: Machine) -> Iterator[Finding]:
    """A large block can be had of the memory that is available."""
    probe, check = machine.cuda, "largest block"
    if probe is None or probe.problem:
        return
    if probe.largest_bytes is None:
        yield Finding(check, "unknown", probe.alloc_problem or "no allocation was tried")
        return
    size = size_text(probe.largest_bytes)
    if not probe.alloc_problem:
        yield Finding(check, "ok", f"{size} can be had in one block")
        return
    there = machine.memory.available if probe.integrated else probe.total_bytes or 0
    wanted = min(MOST_BYTES, there)
    yield Finding(
        check,
        "hurts" if probe.largest_bytes < _LEAST_OF_TRIED * wanted else "note",
        f"at most {size} can be had in one block ({probe.alloc_problem})",
        expected=f"up to {size_text(wanted)}",
        fix="drop the page cache (sync; sudo sysctl vm.drop_caches=3), then reboot"
        if machine.board.is_jetson
        else "end what uses the GPU's memory (nvidia-smi lists it)",
    )


def copy_bandwidth(machine: Machine) -> Iterator[Finding]:
    """The GPU copies memory at a rate that its clock explains. Only where the peak is known."""
    probe, check = machine.cuda, "GPU bandwidth"
    peak = machine.caps.peak_bandwidth_gb_s(machine.board.module)
    if probe is None or probe.problem or peak is None:
        return
    if probe.copy_gb_s is None:
        yield Finding(check, "unknown", "no copy was timed")
        return
    share = probe.copy_gb_s / peak
    found = f"{probe.copy_gb_s:.0f} GB/s in a copy, {share:.0%} of {peak:.0f}"
    if share >= LEAST_COPY_SHARE:
        yield Finding(check, "ok", found)
    else:
        yield Finding(
            check,
            "warning",
            found,
            expected=f"at least {LEAST_COPY_SHARE:.0%}",
            fix=f"pin the clocks ({machine.setup('clocks')}), and end what else uses the memory",
        )
