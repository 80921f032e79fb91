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


@pytest.mark.parametrize("value", ["80-real;86-real", "90a", "89-virtual", "110-real"])
def test_on_an_orin_a_build_that_it_cannot_run_is_refused(machine: Machine, value: str) -> None:
    machine.set("ORIN_LLM_CUDA_ARCH", value)
    assert plan_cuda().enabled
    machine.is_an_orin()
    with pytest.raises(BuildError, match=f"{value}: this machine has the Orin GPU.*87-real"):
        plan_cuda()


@pytest.mark.parametrize("value", ["86", "80-virtual"])
def test_intermediate_code_is_for_a_driver_that_is_no_older_than_the_toolkit(
    machine: Machine, value: str
) -> None:
    machine.is_an_orin()
    machine.set("ORIN_LLM_CUDA_ARCH", value)
    for driver in ("", "12.6", "12.8", "13.0"):
        machine.has_driver(driver)
        assert plan_cuda().enabled
    machine.has_driver("12.4")
    with pytest.raises(
        BuildError, match=rf"{value}, but nvcc 12\.6 .*intermediate code .* 12\.4, does not compile"
    ):
        plan_cuda()
    machine.set("ORIN_LLM_CUDA_ARCH", f"{value};87-real")  # with code of its own
    assert plan_cuda().enabled


HIDDEN = {  # what the kernel tells in a container, where the device tree is hidden
    "fuses": {"soc0/family": b"Tegra\n", "soc0/soc_id": b"35\n"},
    "firmware": {"soc0/family": b"jep106:036b\n", "soc0/soc_id": b"jep106:036b:0234\n"},
    "both": {
        "soc0/family": b"jep106:036b\n",
        "soc0/soc_id": b"jep106:036b:ffff\n",
        "soc1/family": b"Tegra\n",
        "soc1/soc_id": b"35\n",
    },
}


@pytest.mark.parametrize("told", HIDDEN.values(), ids=HIDDEN)
def test_an_orin_is_known_in_a_container_by_what_the_kernel_tells_of_its_chip(
    machine: Machine, told: dict[str, bytes]
) -> None:
    for name, content in told.items():
        machine.write(f"sys/devices/{name}", content)
    assert plan_cuda().architectures == "87-real"
    (machine.on_path / "nvcc").unlink()
    with pytest.raises(BuildError, match="this is a Jetson, but no nvcc was found"):
        plan_cuda()


@pytest.mark.parametrize("release", [b"5.15.148-tegra\n", b"5.15.148-l4t-r36.4.4-1012.12+gc8\n"])
def test_a_jetson_whose_chip_is_hidden_is_no_pc_either(machine: Machine, release: bytes) -> None:
    machine.write("proc/sys/kernel/osrelease", release)
    with pytest.raises(BuildError, match=r"a Jetson, but which GPU .* hidden\): .* 87-real"):
        plan_cuda()
    machine.set("ORIN_LLM_CUDA_ARCH", "87-real")
    assert plan_cuda().architectures == "87-real"


def test_other_machines_are_no_jetsons(machine: Machine) -> None:
    machine.write("proc/sys/kernel/osrelease", b"6.8.0-51-generic\n")
    machine.write("sys/devices/soc0/family", b"Tegra\n")  # a Grace says so, too
    machine.write("sys/devices/soc0/soc_id", b"36\n")
    machine.write("etc/nv_tegra_release", b"# R36 (release), REVISION: 4.3\n")  # of an image
    assert plan_cuda().why.startswith("no NVIDIA GPU is visible here")


@pytest.mark.parametrize("named", [None, "87-real"])
def test_a_xavier_is_out_of_support(machine: Machine, named: str | None) -> None:
    machine.is_of(b"nvidia,p2972-0000\0nvidia,tegra194\0")
    if named:
        machine.set("ORIN_LLM_CUDA_ARCH", named)
    with pytest.raises(BuildError, match=r"the Xavier GPU .*7\.2\) is out of support") as refused:
        plan_cuda()
    assert "87-real" not in str(refused.value)


def test_the_gpus_are_asked_for_once(machine: Machine) -> None:
    machine.add_gpus("8.9")
    assert plan_cuda().enabled
    (machine.on_path / "nvcc").unlink()
    machine.smi_log.unlink()
    assert plan_cuda().idle_gpu == "8.9"
    assert machine.smi_log.read_text() == "\n"


def test_a_driver_that_does_not_answer_does_not_hold_up_the_build(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("native.architectures._SMI_TIMEOUT_S", 0.2)
    machine.add_smi("exec /bin/sleep 60")
    assert "nvidia-smi has not ended in 0.2 s" in plan_cuda().why
    machine.is_an_orin()  # which is known without it
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
