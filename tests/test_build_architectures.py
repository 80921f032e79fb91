"""For which GPUs is compiled, and that a wrong choice is told before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_machine import Machine

from native.architectures import gencode
from native.cuda import plan_cuda
from native.errors import BuildError

UNKNOWN = "echo \"nvcc fatal   : Unsupported gpu architecture 'compute_{name}'\" >&2; exit 1"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path, monkeypatch)
    machine.add_nvcc()
    return machine


def test_an_orin_gets_its_own_architecture(machine: Machine) -> None:
    machine.is_an_orin()
    plan = plan_cuda()
    assert (plan.enabled, plan.architectures, plan.version) == (True, "87-real", "12.6")
    assert "Orin" in plan.why


def test_cmakes_own_variable_changes_nothing(machine: Machine) -> None:
    machine.is_an_orin()
    machine.set("CUDAARCHS", "75")
    assert plan_cuda().architectures == "87-real"  # which CMake is told, so that it asks no more


def test_another_machine_gets_what_its_gpus_are(machine: Machine) -> None:
    machine.add_gpus("8.9", "8.6", "8.9")
    assert plan_cuda().architectures == "86-real;89-real"


def test_the_architecture_can_be_chosen_for_another_machine(machine: Machine) -> None:
    machine.set("ORIN_LLM_CUDA_ARCH", "87-real;80-virtual")
    plan = plan_cuda()
    assert plan.architectures == "87-real;80-virtual"
    assert "ORIN_LLM_CUDA_ARCH" in plan.why


@pytest.mark.parametrize("value", ["native", "all", "sm_87", "8.7", "87,80", "87-real;", "87-ptx"])
def test_what_is_no_list_of_architectures_is_refused(machine: Machine, value: str) -> None:
    machine.set("ORIN_LLM_CUDA_ARCH", value)
    with pytest.raises(BuildError, match=f"ORIN_LLM_CUDA_ARCH={value}: expected .*87-real"):
        plan_cuda()


@pytest.mark.parametrize("value", ["75", "72-real", "87-real;53-real"])
def test_an_architecture_that_the_kernels_need_more_than_is_refused(
    machine: Machine, value: str
) -> None:
    machine.set("ORIN_LLM_CUDA_ARCH", value)
    with pytest.raises(BuildError, match=f"{value}: expected 80 or newer; an Orin has 87-real"):
        plan_cuda()


@pytest.mark.parametrize("value", ["86", "80-real;86-real", "90a", "89-virtual", "110-real"])
def test_on_an_orin_a_build_that_it_cannot_run_is_refused(machine: Machine, value: str) -> None:
    machine.set("ORIN_LLM_CUDA_ARCH", value)
    if value != "86":  # whose intermediate code an Orin's driver can compile
        machine.is_an_orin()
        with pytest.raises(BuildError, match=f"{value}: this machine is an Orin.*87-real"):
            plan_cuda()
    else:
        machine.is_an_orin()
        assert plan_cuda().enabled


def test_an_architecture_that_nvcc_does_not_know_is_named(machine: Machine) -> None:
    machine.set("ORIN_LLM_CUDA_ARCH", "110-real")
    machine.add_nvcc(compile=UNKNOWN.format(name="110"))
    with pytest.raises(BuildError, match=r"nvcc 12\.6 .*know the architecture 110.*87-real"):
        plan_cuda()


def test_who_names_a_gpu_gets_no_build_for_the_cpu(machine: Machine) -> None:
    machine.set("ORIN_LLM_CUDA_ARCH", "87-real")
    machine.add_nvcc(compile="exit 1")
    with pytest.raises(BuildError, match="ORIN_LLM_CUDA_ARCH=87-real, but nvcc .* cannot compile"):
        plan_cuda()


def test_what_is_tried_is_compiled_for_what_is_chosen(machine: Machine) -> None:
    machine.is_an_orin()
    plan_cuda()
    assert "-gencode=arch=compute_87,code=sm_87" in machine.log.read_text().split()
    assert gencode("80-virtual;90a;87") == [
        "-gencode=arch=compute_80,code=compute_80",
        "-gencode=arch=compute_90a,code=[compute_90a,sm_90a]",
        "-gencode=arch=compute_87,code=[compute_87,sm_87]",
    ]
