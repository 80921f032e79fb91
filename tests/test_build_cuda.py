"""Whether the build has CUDA, and that it says why, against stand-ins for nvcc and nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_machine import Machine

from native.cuda import CudaPlan, plan_cuda
from native.errors import BuildError
from native.module import idle_warning

NO_CUBLAS = 'echo "probe.cu:2:10: fatal error: cublas_v2.h: No such file or directory" >&2; exit 1'
NO_DRIVER = 'echo "/usr/bin/ld: cannot find -lcuda: No such file or directory" >&2; exit 1'
OLD_COMPILER = """printf '%s\\n' 'In file included from /usr/local/cuda/bin/../include/cuda_runtime.h:82,' \
    '                 from <command-line>:' \
    '/usr/local/cuda/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than 12 are not supported!' >&2
exit 1"""  # noqa: E501
FULL_DISK = 'echo "nvcc fatal   : Could not open output file" >&2; exit 1'
NO_MESSAGE = "exit 1"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_off_looks_at_nothing(machine: Machine) -> None:
    machine.add_nvcc()
    machine.is_an_orin()
    machine.set("ORIN_LLM_CUDA", "off")
    machine.set("ORIN_LLM_CUDA_ARCH", "nonsense")
    assert plan_cuda() == CudaPlan(False, "ORIN_LLM_CUDA=off")


def test_llama_cpps_other_allocator_can_be_chosen(machine: Machine) -> None:
    machine.add_nvcc()
    machine.add_gpus("8.7")
    assert plan_cuda().vmm
    machine.set("ORIN_LLM_CUDA_VMM", "off")
    assert not plan_cuda().vmm
    machine.set("ORIN_LLM_CUDA_VMM", "never")
    with pytest.raises(BuildError, match="ORIN_LLM_CUDA_VMM"):
        plan_cuda()


def lacking_nvcc(machine: Machine) -> None:
    machine.add_gpus("8.7")


def lacking_cublas(machine: Machine) -> None:
    machine.add_nvcc(compile=NO_CUBLAS)
    machine.add_gpus("8.7")


def lacking_driver_library(machine: Machine) -> None:
    machine.add_nvcc(compile=NO_DRIVER)
    machine.add_gpus("8.7")


def with_newer_compiler(machine: Machine) -> None:
    machine.add_nvcc("12.2", compile=OLD_COMPILER)
    machine.add_gpus("8.7")


def with_full_disk(machine: Machine) -> None:
    machine.add_nvcc(compile=FULL_DISK)
    machine.add_gpus("8.7")


def with_nvcc_that_says_nothing(machine: Machine) -> None:
    machine.add_nvcc(compile=NO_MESSAGE)
    machine.add_gpus("8.7")


def lacking_gpu(machine: Machine) -> None:
    machine.add_nvcc()


def with_old_gpu(machine: Machine) -> None:
    machine.add_nvcc()
    machine.add_gpus("7.5")


LACKS = [
    (lacking_nvcc, r"no nvcc was found.*install the CUDA toolkit"),
    (lacking_cublas, r"nvcc 12\.6 .*no usable cuBLAS.*install libcublas-dev-12-6"),
    (lacking_driver_library, r"no usable driver library.*install cuda-driver-dev-12-6"),
    (
        with_newer_compiler,
        r"nvcc 12\.2 .*cannot compile: .*unsupported GNU version!.*CUDAHOSTCXX=g\+\+-12",
    ),
    (with_full_disk, r"cannot compile: nvcc fatal   : Could not open output file"),
    (with_nvcc_that_says_nothing, r"cannot compile: no message"),
    (lacking_gpu, r"no NVIDIA GPU is visible.*ORIN_LLM_CUDA_ARCH"),
    (with_old_gpu, r"compute capability 7\.5, expected 8\.0"),
]


@pytest.mark.parametrize(("arrange", "reason"), LACKS)
def test_what_is_missing_is_said_under_auto_and_an_error_under_on(
    machine: Machine, arrange: Callable[[Machine], None], reason: str
) -> None:
    arrange(machine)
    plan = plan_cuda()
    assert not plan.enabled and "\n" not in plan.why
    assert re.search(reason, plan.why)
    machine.set("ORIN_LLM_CUDA", "on")
    with pytest.raises(BuildError, match=f"ORIN_LLM_CUDA=on, but .*{reason}"):
        plan_cuda()


def test_a_jetson_is_never_built_for_the_cpu_alone_unless_that_is_asked_for(
    machine: Machine,
) -> None:
    machine.is_an_orin()
    with pytest.raises(BuildError, match=r"a Jetson, but no nvcc was found.*ORIN_LLM_CUDA=off"):
        plan_cuda()
    machine.add_nvcc(compile=NO_CUBLAS)
    with pytest.raises(BuildError, match=r"a Jetson, but nvcc 12\.6 .*no usable cuBLAS"):
        plan_cuda()
    machine.is_of(b"nvidia,p3450-0000\0nvidia,tegra210\0")  # a Nano
    with pytest.raises(BuildError, match=r"a Jetson, but the Tegra X1 GPU .* out of support"):
        plan_cuda()
    machine.is_of(b"nvidia,p0000\0nvidia,tegra999\0")
    with pytest.raises(BuildError, match=r"a Jetson, but which GPU .*\(nvidia,tegra999\)"):
        plan_cuda()
    machine.set("ORIN_LLM_CUDA", "off")
    assert not plan_cuda().enabled


def test_a_gpu_that_stays_idle_is_warned_of_at_the_end(machine: Machine) -> None:
    machine.add_gpus("7.5", "8.9")
    plan = plan_cuda()
    assert plan.idle_gpu == "8.9"
    assert "capability 8.9) stays idle" in idle_warning(plan)
    machine.add_gpus("7.5")
    assert plan_cuda().idle_gpu == ""  # it could not be used
    machine.add_gpus("8.9")
    machine.set("ORIN_LLM_CUDA", "off")
    assert plan_cuda().idle_gpu == ""  # as was asked for


def test_another_value_of_the_switch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORIN_LLM_CUDA", "yes")
    with pytest.raises(BuildError, match="ORIN_LLM_CUDA=yes: expected auto, on, off"):
        plan_cuda()
