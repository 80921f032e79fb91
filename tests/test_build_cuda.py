"""Whether the build has CUDA, and that it says why, against stand-ins for nvcc and nvidia-smi."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from native import cuda
from native.cuda import plan_cuda
from native.errors import BuildError

NVCC = """#!/bin/sh
case "$1" in
    --version) echo "Cuda compilation tools, release 12.6, V12.6.68" ;;
    *) {compile} ;;
esac
"""
NO_CUBLAS = 'echo "probe.cu:2:10: fatal error: cublas_v2.h: No such file or directory" >&2; exit 1'
NO_DRIVER = 'echo "/usr/bin/ld: cannot find -lcuda: No such file or directory" >&2; exit 1'
NO_HOST_COMPILER = 'echo "unsupported GNU version! gcc versions later than 13" >&2; exit 1'


class Machine:
    """What the build finds: programs on PATH, the device tree."""

    def __init__(self, work: Path) -> None:
        self.programs = work / "bin"
        self.programs.mkdir()
        self.device_tree = work / "compatible"

    def add(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(script)
        path.chmod(0o755)

    def add_nvcc(self, compile: str = "exit 0") -> None:
        self.add("nvcc", NVCC.format(compile=compile))

    def add_gpus(self, *capabilities: str) -> None:
        lines = "".join(f"echo {capability}\n" for capability in capabilities)
        self.add("nvidia-smi", f"#!/bin/sh\n{lines}")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    (machine.programs / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    monkeypatch.setenv("PATH", str(machine.programs))
    for name in (
        "CUDA_HOME",
        "CUDA_PATH",
        "ORIN_LLM_CUDA",
        "ORIN_LLM_CUDA_ARCH",
        "ORIN_LLM_CUDA_VMM",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cuda, "_COMPATIBLE", machine.device_tree)
    monkeypatch.setattr(cuda, "_INSTALL_FOLDER", tmp_path / "local")
    return machine


def test_off_looks_at_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.add_nvcc()
    machine.add_gpus("8.7")
    monkeypatch.setenv("ORIN_LLM_CUDA", "off")
    assert plan_cuda() == cuda.CudaPlan(False, "ORIN_LLM_CUDA=off")


def test_an_orin_gets_its_own_architecture(machine: Machine) -> None:
    machine.add_nvcc()
    machine.device_tree.write_bytes(b"nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0")
    plan = plan_cuda()
    assert (plan.enabled, plan.architectures, plan.version) == (True, "87-real", "12.6")
    assert "Orin" in plan.why


def test_another_machine_gets_what_its_gpus_are(machine: Machine) -> None:
    machine.add_nvcc()
    machine.add_gpus("8.9", "8.6", "8.9")
    assert plan_cuda().architectures == "86-real;89-real"


def test_the_architecture_can_be_chosen_for_another_machine(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.add_nvcc()
    monkeypatch.setenv("ORIN_LLM_CUDA_ARCH", "87-real;80-virtual")
    plan = plan_cuda()
    assert plan.architectures == "87-real;80-virtual"
    assert "ORIN_LLM_CUDA_ARCH" in plan.why


def test_llama_cpps_other_allocator_can_be_chosen(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.add_nvcc()
    machine.add_gpus("8.7")
    assert plan_cuda().vmm
    monkeypatch.setenv("ORIN_LLM_CUDA_VMM", "off")
    assert not plan_cuda().vmm
    monkeypatch.setenv("ORIN_LLM_CUDA_VMM", "never")
    with pytest.raises(BuildError, match="ORIN_LLM_CUDA_VMM"):
        plan_cuda()


def test_nvcc_is_found_where_cuda_is_installed_though_not_on_path(
    machine: Machine, tmp_path: Path
) -> None:
    machine.add_nvcc()
    machine.add_gpus("8.7")
    for version in ("cuda-12.2", "cuda-12.10"):
        (tmp_path / "local" / version / "bin").mkdir(parents=True)
        shutil.copy2(machine.programs / "nvcc", tmp_path / "local" / version / "bin" / "nvcc")
    (machine.programs / "nvcc").unlink()
    assert plan_cuda().nvcc == str(tmp_path / "local" / "cuda-12.10" / "bin" / "nvcc")


def lacking_nvcc(machine: Machine) -> None:
    machine.add_gpus("8.7")


def lacking_cublas(machine: Machine) -> None:
    machine.add_nvcc(NO_CUBLAS)
    machine.add_gpus("8.7")


def lacking_driver(machine: Machine) -> None:
    machine.add_nvcc(NO_DRIVER)
    machine.add_gpus("8.7")


def lacking_host_compiler(machine: Machine) -> None:
    machine.add_nvcc(NO_HOST_COMPILER)
    machine.add_gpus("8.7")


def lacking_gpu(machine: Machine) -> None:
    machine.add_nvcc()


def with_old_gpu(machine: Machine) -> None:
    machine.add_nvcc()
    machine.add_gpus("7.5")


LACKS = [
    (lacking_nvcc, r"no nvcc was found.*install the CUDA toolkit"),
    (lacking_cublas, r"nvcc 12\.6 .*no usable cuBLAS.*install libcublas-dev-12-6"),
    (lacking_driver, r"no usable driver library.*install cuda-driver-dev-12-6"),
    (lacking_host_compiler, r"cannot compile: unsupported GNU version"),
    (lacking_gpu, r"no NVIDIA GPU is visible.*ORIN_LLM_CUDA_ARCH"),
    (with_old_gpu, r"compute capability 7\.5, expected 8\.0"),
]


@pytest.mark.parametrize(("arrange", "reason"), LACKS)
def test_what_is_missing_is_said_under_auto_and_an_error_under_on(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    arrange: Callable[[Machine], None],
    reason: str,
) -> None:
    arrange(machine)
    plan = plan_cuda()
    assert not plan.enabled
    assert re.search(reason, plan.why)
    monkeypatch.setenv("ORIN_LLM_CUDA", "on")
    with pytest.raises(BuildError, match=f"ORIN_LLM_CUDA=on, but .*{reason}"):
        plan_cuda()


def test_another_value_of_the_switch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORIN_LLM_CUDA", "yes")
    with pytest.raises(BuildError, match="ORIN_LLM_CUDA=yes: expected auto, on, off"):
        plan_cuda()
