"""Does what was built suit the processor and the GPU of this machine?"""

from __future__ import annotations

from collections.abc import Iterator

from orin_llm.device.architectures import intermediate, runs_on
from orin_llm.device.build import Build
from orin_llm.device.gpu import Gpu
from orin_llm.doctor.finding import Finding, Level
from orin_llm.doctor.machine import Machine
from orin_llm.host.cpu import Cpu


def processor(machine: Machine) -> Iterator[Finding]:
    """The extension loads, and uses no instruction that the processor lacks."""
    build = machine.build
    if build.problem:
        yield Finding("build", "missing", build.problem)
        return
    if lacking := _lacking(build, machine.cpu):
        yield Finding(
            "build",
            "missing",
            f"the build uses {', '.join(lacking)}, which this processor lacks",
            fix="build it here again, or with ORIN_LLM_NATIVE=off for any machine",
        )
    elif not machine.cpu.features:
        yield Finding("build", "unknown", "it loads, but /proc/cpuinfo cannot be read")
    elif not build.native:
        yield Finding(
            "build",
            "note",
            "built for a portable baseline",
            expected="built for this processor, which is faster",
            fix="build without ORIN_LLM_NATIVE=off",
        )
    else:
        yield Finding("build", "ok", "made for this processor")


def is_loadable(build: Build, cpu: Cpu) -> bool:
    """The extension can do its work here, rather than die of an illegal instruction."""
    return not build.problem and not _lacking(build, cpu)


def _lacking(build: Build, cpu: Cpu) -> list[str]:
    """Instruction sets that the build uses; none where the processor does not tell what it has."""
    return [flag for flag in build.cpu_flags if cpu.features and flag not in cpu.features]


def gpu(machine: Machine) -> Iterator[Finding]:
    """A GPU that is there is used."""
    build, gpus = machine.build, machine.gpus
    if build.problem:
        return
    if gpus.problem:
        level: Level = "hurts" if machine.board.is_jetson else "warning"
        yield Finding("GPU", level, gpus.problem)
    elif gpus.usable and not build.cuda:
        yield Finding(
            "GPU",
            "hurts",
            f"the {gpus.usable[0].name} is not used: this build is CPU only, because {build.why}",
            expected="a build with CUDA",
            fix=_how_to_build_with_cuda(machine),
        )
    elif build.cuda and not gpus.usable:
        yield Finding("GPU", "warning", "built with CUDA, but no GPU is found: the CPU is used")
    elif gpus.usable:
        yield Finding("GPU", "ok", f"the {gpus.usable[0].name} is used")


def _how_to_build_with_cuda(machine: Machine) -> str:
    """A service's PATH has no nvcc, so that a build in it is for the CPU without a word."""
    how = "build again with ORIN_LLM_CUDA=on, which insists on CUDA and says what it lacks"
    return f"{how} (nvcc is at {machine.system.nvcc})" if machine.system.nvcc else how


def architectures(machine: Machine) -> Iterator[Finding]:
    """By the build's own account it has code for each GPU."""
    build = machine.build
    for gpu in machine.gpus.usable if build.cuda else ():
        capability = gpu.compute_capability
        if not capability:
            yield Finding("CUDA code", "unknown", f"the {gpu.name} does not tell what it can run")
        elif runs_on(build.cuda_architectures, capability, integrated=gpu.integrated):
            found = f"built for {build.cuda_architectures}, which the {gpu.name} runs"
            yield Finding("CUDA code", "ok", found)
        else:
            yield Finding(
                "CUDA code",
                "hurts",
                f"built for the CUDA architectures {build.cuda_architectures}, which the "
                f"{gpu.name} ({capability}) cannot run",
                expected=f"{_number(gpu)}-real",
                fix=f"build again with ORIN_LLM_CUDA_ARCH={_number(gpu)}-real",
            )


def binary_code(machine: Machine) -> Iterator[Finding]:
    """So it is in the module itself, as cuobjdump lists it."""
    build = machine.build
    for gpu in machine.gpus.usable if build.cuda else ():
        capability = gpu.compute_capability
        if not capability:
            continue
        wanted = f"sm_{_number(gpu)}"
        if machine.binary_code is None:
            yield Finding(
                "binary code",
                "unknown",
                "the module's code was not listed",
                expected=f"code for {wanted}",
                fix="cuobjdump lists it: install the package cuda-cuobjdump of CUDA's version",
            )
            continue
        listed = ", ".join(machine.binary_code) or "no code for a GPU"
        native = ";".join(f"{name.removeprefix('sm_')}-real" for name in machine.binary_code)
        if runs_on(native, capability, integrated=gpu.integrated):
            yield Finding("binary code", "ok", f"{listed} in the module")
        elif runs_on(intermediate(build.cuda_architectures), capability):
            yield Finding(
                "binary code",
                "warning",
                f"{listed} in the module: the driver compiles for the {gpu.name} when it starts",
                expected=wanted,
                fix=f"build again with ORIN_LLM_CUDA_ARCH={_number(gpu)}-real",
            )
        else:
            yield Finding(
                "binary code",
                "hurts",
                f"{listed} in the module, which the {gpu.name} cannot run",
                expected=wanted,
                fix=f"build again with ORIN_LLM_CUDA_ARCH={_number(gpu)}-real",
            )


def _number(gpu: Gpu) -> str:
    return gpu.compute_capability.replace(".", "")
