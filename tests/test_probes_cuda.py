"""Trying CUDA, against a driver's library that fails in each way a real one does."""

from __future__ import annotations

import ctypes.util
import os
import resource
import sys
import time
from pathlib import Path

import pytest
from fakes.cuda.driver import Driver, compile_driver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import interrupt, python, start

from orin_llm.device.probes.cuda import CudaProbe, probe_cuda

MIB, GIB = 1 << 20, 1 << 30
STEP = 16 * MIB
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
WELL = CudaProbe(
    driver="12.6",
    name="Orin",
    compute_capability="8.7",
    integrated=False,
    total_bytes=64 * GIB,
    vmm=True,
    kv_grows=True,
    largest_bytes=8 * GIB,
    copy_gb_s=pytest.approx(100),
)


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(library_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder))
    made = Driver(monkeypatch, tmp_path / "calls.log")
    made.set(LOG=made.log)
    return made


def machine(root: Path, available_bytes: int) -> Path:
    """A machine that has so much memory left."""
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc" / "meminfo").write_text(
        f"MemTotal: {64 * GIB // 1024} kB\nMemAvailable: {available_bytes // 1024} kB\n"
    )
    return root


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


# a GPU that works


def test_a_gpu_that_works_is_described_and_measured(driver: Driver) -> None:
    assert probe_cuda() == WELL


def test_all_memory_and_the_context_are_given_back(driver: Driver) -> None:
    probe_cuda()
    assert driver.left == 0
    assert driver.log.read_text().splitlines()[-1] == "left 0"


def test_the_pool_is_tried_as_llama_cpp_makes_it(driver: Driver) -> None:
    probe_cuda()
    assert driver.calls("cuMemAddressReserve") == driver.calls("cuMemAddressFree") == [32 * GIB]
    for call in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap"):
        assert driver.calls(call) == [2 * MIB]


@pytest.mark.parametrize("gb_s", [12, 171, 4000])
def test_the_rate_of_copies_counts_what_is_read_and_what_is_written(
    driver: Driver, gb_s: int
) -> None:
    driver.set(GB_S=gb_s)
    assert probe_cuda().copy_gb_s == pytest.approx(gb_s)
    copied_s = sum(driver.calls("cuMemcpyDtoDAsync_v2")) * 2 / gb_s / 1e9
    assert 0.4 < copied_s < 1  # warmed up, and long enough to be one; in the stand-in's own time


def test_the_answer_is_the_same_wherever_it_is_asked(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orin_llm").mkdir()
    (tmp_path / "orin_llm" / "__init__.py").write_text("raise SystemExit('another')\n")
    monkeypatch.chdir(tmp_path)
    assert probe_cuda() == WELL


# how much memory is tried


def test_of_shared_memory_a_gibibyte_is_left_alone(driver: Driver, tmp_path: Path) -> None:
    driver.set(INTEGRATED=1)
    probe = probe_cuda(machine(tmp_path, 3 * GIB))
    assert (probe.integrated, probe.largest_bytes, probe.alloc_problem) == (True, 2 * GIB, "")
    assert max(driver.calls("cuMemAlloc_v2")) == 2 * GIB


def test_with_too_little_shared_memory_none_is_taken(driver: Driver, tmp_path: Path) -> None:
    driver.set(INTEGRATED=1)
    probe = probe_cuda(machine(tmp_path, GIB + MIB))
    assert probe.alloc_problem == "not tried: only 1.0 MB of memory can be spared"
    assert (probe.problem, probe.largest_bytes, probe.copy_gb_s) == ("", None, None)
    assert driver.calls("cuMemAlloc_v2") == []


def test_the_memory_of_the_machine_does_not_bound_a_gpu_with_its_own(
    driver: Driver, tmp_path: Path
) -> None:
    assert probe_cuda(machine(tmp_path, GIB)).largest_bytes == 8 * GIB


def test_a_gpu_that_others_use_is_tried_up_to_what_is_free(driver: Driver) -> None:
    driver.set(FREE=GIB)
    probe = probe_cuda()
    assert (probe.largest_bytes, probe.alloc_problem) == (768 * MIB, "")
    assert max(driver.calls("cuMemAlloc_v2")) == 768 * MIB


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(limit=st.integers(0, 8 * GIB - 1))
def test_the_largest_block_is_found_whatever_the_limit(driver: Driver, limit: int) -> None:
    driver.log.unlink(missing_ok=True)
    driver.set(LIMIT=limit)
    probe = probe_cuda()
    assert probe.largest_bytes == limit // STEP * STEP
    assert probe.alloc_problem.startswith(f"cuMemAlloc of 8.59 GB: {OUT_OF_MEMORY}")
    assert probe.problem == "" and driver.left == 0
    assert max(driver.calls("cuMemAlloc_v2")) == 8 * GIB


def test_the_words_of_the_driver_are_told_with_the_error(driver: Driver) -> None:
    driver.set(LIMIT=GIB)
    assert probe_cuda().alloc_problem == (
        f"cuMemAlloc of 8.59 GB: {OUT_OF_MEMORY}: NvMapMemAllocInternalTagged: 1075072515 error 12"
    )


@pytest.mark.parametrize(("limit", "copied"), [(GIB, 256 * MIB), (400 * MIB, 100 * MIB)])
def test_copies_take_half_of_the_memory_at_most(driver: Driver, limit: int, copied: int) -> None:
    driver.set(LIMIT=limit)
    assert probe_cuda().copy_gb_s == pytest.approx(100)
    assert set(driver.calls("cuMemcpyDtoDAsync_v2")) == {copied}


def test_what_would_fit_into_a_cache_is_not_copied(driver: Driver) -> None:
    driver.set(LIMIT=112 * MIB)
    probe = probe_cuda()
    assert (probe.largest_bytes, probe.copy_gb_s, probe.problem) == (112 * MIB, None, "")


# calls that fail


@pytest.mark.parametrize(
    ("fail", "problem"),
    [
        ("cuInit:999", "cuInit: CUDA_ERROR_UNKNOWN"),
        (
            "cuInit:100",
            "cuInit: CUDA_ERROR_NO_DEVICE: NvRmMemInitNvmap failed with Permission denied",
        ),
        ("cuInit:12345", "cuInit: error 12345"),
        ("cuDevicePrimaryCtxRetain:2", f"cuDevicePrimaryCtxRetain: {OUT_OF_MEMORY}"),
        ("cuMemcpyDtoDAsync_v2:700", "cuMemcpyDtoDAsync: CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuEventSynchronize:700", "cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)
def test_an_error_is_told_by_the_call_and_by_its_name(
    driver: Driver, fail: str, problem: str
) -> None:
    driver.set(FAIL=fail)
    probe = probe_cuda()
    assert (probe.problem, probe.driver, probe.copy_gb_s) == (problem, "12.6", None)


@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("cuMemGetAllocationGranularity", ""),
        ("cuMemAddressReserve", " of 34.36 GB"),
        ("cuMemCreate", " of 2.1 MB"),
        ("cuMemMap", " of 2.1 MB"),
        ("cuMemSetAccess", " of 2.1 MB"),
    ],
)
def test_virtual_memory_that_fails_is_given_back_and_the_rest_is_tried(
    driver: Driver, call: str, size: str
) -> None:
    driver.set(FAIL=f"{call}:2")
    probe = probe_cuda()
    assert (probe.vmm, probe.vmm_problem) == (False, f"{call}{size}: {OUT_OF_MEMORY}")
    assert probe.kv_grows is False and probe.kv_problem.startswith(call)
    assert (probe.problem, probe.largest_bytes) == ("", 8 * GIB)
    assert driver.left == 0


def test_virtual_memory_that_cannot_be_given_back_is_a_problem_of_it(driver: Driver) -> None:
    driver.set(FAIL="cuMemUnmap:999")
    assert probe_cuda().vmm is False


def test_a_kv_cache_may_grow_where_the_pool_finds_no_addresses(driver: Driver) -> None:
    driver.set(ADDRESSES=8 * GIB)
    probe = probe_cuda()
    assert probe.vmm is False and "cuMemAddressReserve of 34.36 GB" in probe.vmm_problem
    assert (probe.kv_grows, probe.kv_problem) == (True, "")
    assert driver.calls("cuMemAddressReserve") == [32 * GIB, 1 * MIB]  # the least granule
    assert driver.left == 0


def test_a_gpu_without_virtual_memory_is_not_asked_for_it(driver: Driver) -> None:
    driver.set(VMM=0)
    probe = probe_cuda()
    assert (probe.vmm, probe.vmm_problem) == (False, "the driver says that this GPU has none")
    assert (probe.kv_grows, probe.kv_problem) == (probe.vmm, probe.vmm_problem)
    assert driver.calls("cuMemAddressReserve") == []


def test_a_driver_that_is_older_than_a_call_is_understood(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = compile_driver(tmp_path, "-DcuMemAddressReserve=cuNotYet")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(old))
    probe = probe_cuda()
    assert probe.vmm_problem == "cuMemAddressReserve of 34.36 GB: this driver has no such call"
    assert probe.copy_gb_s is not None


# a driver that is not there, dies, or does not answer


def test_a_library_to_link_with_is_told_from_a_driver(driver: Driver) -> None:
    driver.set(FAIL="cuDriverGetVersion:34")
    probe = probe_cuda()
    assert probe.driver == "" and "stubs/libcuda.so, stands for the driver" in probe.problem


def test_without_a_driver_one_line_says_so() -> None:
    if ctypes.util.find_library("cuda"):
        pytest.skip("this machine has NVIDIA's driver")
    probe = probe_cuda()
    assert probe == CudaProbe(problem=probe.problem)
    assert probe.problem.startswith("no NVIDIA driver (libcuda.so.1) can be loaded: ")
    assert "\n" not in probe.problem and probe.problem.count("libcuda") == 1


def test_a_driver_that_does_not_load_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"cut off")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert "file too short" in probe_cuda().problem


def test_a_driver_that_aborts_is_a_problem_and_what_was_found_stays(driver: Driver) -> None:
    driver.set(ABORT="cuMemCreate")
    probe = probe_cuda()
    assert probe.problem == (
        "the CUDA probe died of SIGABRT while trying virtual memory: NvRmMemInit failed"
    )
    assert (probe.name, probe.vmm, probe.largest_bytes) == ("Orin", None, None)


def test_a_driver_that_aborts_leaves_no_core_file(driver: Driver) -> None:
    kept = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (kept[1], kept[1]))
    try:
        probe_cuda()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, kept)
    assert driver.calls("core") == [0]


@pytest.mark.parametrize(
    ("call", "stage"),
    [("cuInit", "starting"), ("cuMemFree_v2", "allocating"), ("cuEventCreate", "copying")],
)
def test_a_driver_that_hangs_is_ended(driver: Driver, call: str, stage: str) -> None:
    driver.set(HANG=call)
    before = children()
    probe = probe_cuda(timeout_s=1)
    assert probe.problem == f"the CUDA probe did not answer within 1 s while {stage}"
    assert children() == before


def test_ctrl_c_ends_a_driver_that_hangs(driver: Driver) -> None:
    driver.set(HANG="cuInit")
    asking = "from orin_llm.device.probes.cuda import probe_cuda\nprobe_cuda(timeout_s=600)"
    process = start(python(asking))
    while not driver.log.exists() or not driver.calls("cuInit"):
        assert process.poll() is None
        time.sleep(0.01)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    _, errors = interrupt(process)
    assert "KeyboardInterrupt" in errors
    assert not Path(f"/proc/{child}").exists()


def test_a_probe_that_itself_fails_is_a_problem(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'cut off: {' \necho 'MemoryError' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    problem = "the CUDA probe failed with exit status 1 while starting: MemoryError"
    assert probe_cuda() == CudaProbe(problem=problem)
