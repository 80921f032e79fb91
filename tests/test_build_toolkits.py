"""Which of several CUDA toolkits is taken, and what is said of those that are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cuda_machine import Machine
from fakes.cuda.driver import compile_driver

from native.cuda import plan_cuda
from native.errors import BuildError
from native.toolkits import driver_version, find_nvcc

NO_CUBLAS = 'echo "fatal error: cublas_v2.h: No such file or directory" >&2; exit 1'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An Orin without a toolkit."""
    machine = Machine(tmp_path, monkeypatch)
    machine.is_an_orin()
    return machine


def refusal() -> str:
    with pytest.raises(BuildError) as refused:
        plan_cuda()
    return str(refused.value)


def test_a_toolkit_that_is_not_on_path_is_found_as_a_service_or_ssh_needs_it(
    machine: Machine,
) -> None:
    nvcc = machine.add_nvcc(to=machine.local / "cuda")
    assert plan_cuda().nvcc == find_nvcc() == str(nvcc)


def test_the_newest_is_taken_where_no_link_says_which(machine: Machine) -> None:
    machine.add_nvcc(to=machine.local / "cuda-12.2")
    newest = machine.add_nvcc(to=machine.local / "cuda-12.10")
    assert plan_cuda().nvcc == str(newest)


def test_a_link_that_leads_nowhere_is_told_and_passed_over(machine: Machine) -> None:
    machine.local.mkdir()
    (machine.local / "cuda").symlink_to(machine.local / "cuda-11.4")
    assert re.search(r"local/cuda has no bin/nvcc; no nvcc was found", refusal())
    nvcc = machine.add_nvcc(to=machine.local / "cuda-12.6")
    plan = plan_cuda()
    assert plan.nvcc == str(nvcc) and "local/cuda has no bin/nvcc" in plan.why


def test_a_folder_that_is_named_by_hand_comes_first(machine: Machine, tmp_path: Path) -> None:
    machine.add_nvcc("12.6")
    nvcc = machine.add_nvcc("12.8", to=tmp_path / "own")
    machine.set("CUDA_HOME", tmp_path / "own")
    plan = plan_cuda()
    assert (plan.nvcc, plan.version) == (str(nvcc), "12.8") and "passed over" not in plan.why


@pytest.mark.parametrize("name", ["CUDA_HOME", "CUDA_PATH"])
def test_a_folder_that_is_named_and_has_no_nvcc_is_told(
    machine: Machine, tmp_path: Path, name: str
) -> None:
    machine.set(name, tmp_path / "gone")
    assert f"{name}={tmp_path}/gone has no bin/nvcc; no nvcc was found" in refusal()
    machine.add_nvcc()
    assert f"{name}={tmp_path}/gone has no bin/nvcc" in plan_cuda().why


def test_a_toolkit_older_than_12_2_is_refused_as_jetpack_5_has_it(machine: Machine) -> None:
    machine.add_nvcc("11.4", to=machine.local / "cuda")
    assert re.search(
        r"nvcc 11\.4 .*too old: CUDA 12\.2 or newer is needed \(.*JetPack 6", refusal()
    )
    machine.add_nvcc("12.1", to=machine.local / "cuda")
    assert "too old" in refusal()
    machine.add_nvcc("12.2", to=machine.local / "cuda")
    assert plan_cuda().enabled


def test_one_whose_code_the_driver_does_not_run_gives_way_to_jetpacks_own(
    machine: Machine,
) -> None:
    machine.has_driver("12.6")
    pip = machine.add_nvcc("13.0")
    assert re.search(
        r"nvcc 13\.0 .*newer driver than the one here, which is for CUDA 12\.6: install.*CUDA 12 ",
        refusal(),
    )
    own = machine.add_nvcc("12.6", to=machine.local / "cuda")
    plan = plan_cuda()
    assert plan.nvcc == str(own)
    assert f"passed over: nvcc 13.0 ({pip})" in plan.why


def test_a_newer_release_of_the_drivers_version_is_taken(machine: Machine) -> None:
    machine.has_driver("12.2")
    machine.add_nvcc("12.9")
    assert plan_cuda().enabled


def test_the_driver_here_says_nothing_of_a_gpu_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pc = Machine(tmp_path, monkeypatch)
    pc.has_driver("12.6")
    pc.add_nvcc("13.0")
    pc.add_gpus("8.9")
    assert not plan_cuda().enabled
    pc.set("ORIN_LLM_CUDA_ARCH", "87-real")
    assert plan_cuda().enabled


def test_it_says_so_of_an_orin_that_names_its_own_gpu(machine: Machine) -> None:
    machine.has_driver("12.6")
    machine.add_nvcc("13.0")
    machine.set("ORIN_LLM_CUDA_ARCH", "87-real")
    assert "newer driver than the one here" in refusal()


def test_one_without_cublas_as_pip_and_conda_have_it_gives_way(machine: Machine) -> None:
    machine.add_nvcc("12.8", compile=NO_CUBLAS)
    own = machine.add_nvcc("12.6", to=machine.local / "cuda")
    plan = plan_cuda()
    assert plan.nvcc == str(own) and "nvcc 12.8" in plan.why and "no usable cuBLAS" in plan.why


def test_one_of_another_processor_is_told_and_passed_over(machine: Machine) -> None:
    foreign = machine.add_nvcc()
    foreign.write_bytes(b"\x7fELF")
    assert f"{foreign} cannot be started: Exec format error" in refusal()
    machine.add_nvcc(to=machine.local / "cuda")
    assert plan_cuda().enabled


def test_each_is_tried_once(machine: Machine, tmp_path: Path) -> None:
    count = tmp_path / "count"
    nvcc = machine.add_nvcc(to=machine.local / "cuda-12.6", compile=f"echo >> {count}; exit 1")
    (machine.local / "cuda").symlink_to(machine.local / "cuda-12.6")
    (machine.on_path / "nvcc").symlink_to(nvcc)
    machine.set("CUDA_HOME", machine.local / "cuda")
    assert refusal().count("cannot compile") == 1
    assert count.read_text() == "\n"


def test_the_compiler_that_cmake_is_told_of_is_tried(machine: Machine) -> None:
    machine.set("CUDAHOSTCXX", "g++-12")
    machine.add_nvcc()
    plan_cuda()
    assert "-ccbin=g++-12" in machine.log.read_text().split()


def test_the_driver_tells_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(compile_driver(tmp_path)))
    assert driver_version() == "12.6"
    monkeypatch.setenv("FAKE_CUDA_ABORT", "cuDriverGetVersion")
    assert driver_version() == ""


def test_a_stub_in_the_drivers_place_is_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(compile_driver(tmp_path)))
    monkeypatch.setenv("FAKE_CUDA_FAIL", "cuDriverGetVersion:34")
    assert driver_version() == ""
