"""doctor's checks of what CUDA could do when it was tried, and of the model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doctor_support import CPU_ONLY, CUDA, FIT, GOOD, ORIN, PC, PROBE, only, spoilt

from orin_llm.device.budget import MemoryBudget
from orin_llm.device.gpu import Gpus
from orin_llm.device.probes.cuda import CudaProbe
from orin_llm.device.probes.disk import DiskSpeed
from orin_llm.doctor.machine import Model

RESERVE = "cuMemAddressReserve of 34.36 GB: CUDA_ERROR_OUT_OF_MEMORY"


def test_a_driver_that_does_not_answer_hurts_where_there_is_a_gpu() -> None:
    finding = only(cuda=CudaProbe("no NVIDIA driver"))
    assert (finding.check, finding.level) == ("CUDA driver", "hurts")
    assert finding.found == "no NVIDIA driver" and "--runtime nvidia" in finding.fix
    found = spoilt(PC, build=CUDA, cuda=CudaProbe("no NVIDIA driver"))
    assert [(f.check, f.level) for f in found] == [("GPU", "warning"), ("CUDA driver", "warning")]
    assert found[1].fix == ""


def test_a_driver_older_than_the_build_hurts() -> None:
    finding = only(cuda=replace(PROBE, driver="11.4"))
    assert (finding.check, finding.level) == ("CUDA driver", "hurts")
    assert "for CUDA 11.4, the build is of 12.6" in finding.found
    assert spoilt(cuda=replace(PROBE, driver="12.2")) == []  # the same major version will do
    assert spoilt(cuda=replace(PROBE, driver="13.0")) == []


def test_virtual_memory_that_fails_hurts_a_build_that_uses_it() -> None:
    probe = replace(PROBE, vmm=False, vmm_problem=RESERVE)
    finding = only(cuda=probe)
    assert (finding.check, finding.level) == ("CUDA allocator", "hurts")
    assert RESERVE in finding.found and "ORIN_LLM_CUDA_VMM=off" in finding.fix
    gpu, finding = spoilt(cuda=probe, build=CPU_ONLY)
    assert (gpu.check, finding.check, finding.level) == ("GPU", "CUDA allocator", "warning")


def test_a_gpu_without_virtual_memory_is_a_note() -> None:
    finding = only(cuda=replace(PROBE, vmm=False, vmm_problem="this GPU has none"))
    assert finding.level == "note" and "does not grow (this GPU has none)" in finding.found
    assert only(cuda=replace(PROBE, vmm=None)).level == "unknown"


def test_a_kv_cache_that_is_one_allocation_is_a_note_with_the_reason() -> None:
    finding = only(cuda=replace(PROBE, kv_grows=False, kv_problem="cuMemMap: CUDA_ERROR_UNKNOWN"))
    assert (finding.check, finding.level) == ("KV cache", "note")
    assert "one allocation" in finding.found and "cuMemMap: CUDA_ERROR_UNKNOWN" in finding.found
    assert "--kv-memory" in finding.fix
    assert only(cuda=replace(PROBE, kv_grows=None)).level == "unknown"


@pytest.mark.parametrize(
    ("largest", "level"), [(4 << 30, "note"), ((4 << 30) - 1, "hurts"), (0, "hurts")]
)
def test_a_largest_block_far_below_what_was_tried_hurts(largest: int, level: str) -> None:
    finding = only(cuda=replace(PROBE, largest_bytes=largest, alloc_problem="error 12"))
    assert (finding.check, finding.level) == ("largest block", level)
    assert "error 12" in finding.found and finding.expected == "up to 8.59 GB"
    assert "drop_caches" in finding.fix


def test_the_largest_block_is_measured_by_the_memory_that_the_gpu_has() -> None:
    probe = replace(PROBE, largest_bytes=1 << 30, alloc_problem="no")
    short = replace(GOOD.memory, available=2 << 30)
    found = {finding.check: finding for finding in spoilt(cuda=probe, memory=short, model=None)}
    assert found["largest block"].level == "note"
    own = replace(probe, integrated=False, total_bytes=4 << 30)
    assert only(PC, cuda=own).level == "hurts" and "nvidia-smi" in only(PC, cuda=own).fix
    untried = replace(PROBE, largest_bytes=None, alloc_problem="not tried")
    assert only(cuda=untried).level == "unknown"


def test_a_slow_copy_is_a_warning_with_its_share_of_the_peak() -> None:
    finding = only(cuda=replace(PROBE, copy_gb_s=120.0))
    assert (finding.check, finding.level) == ("GPU bandwidth", "warning")
    assert "120 GB/s in a copy, 59% of 205" in finding.found
    assert spoilt(cuda=replace(PROBE, copy_gb_s=0.6 * 204.8 + 0.01)) == []
    assert only(cuda=replace(PROBE, copy_gb_s=None)).level == "unknown"


def test_a_gpu_of_a_pc_has_no_peak_to_compare_with() -> None:
    found = spoilt(PC, cuda=replace(PROBE, copy_gb_s=None), build=CUDA, gpus=Gpus((ORIN,)))
    assert [finding.check for finding in found] == ["binary code"]  # which was not listed


def test_a_model_that_does_not_fit_hurts_with_the_sum() -> None:
    fit = replace(FIT, budget=MemoryBudget(6 << 30, "available memory of this machine"))
    finding = only(model=Model("llama", fit=fit))
    assert (finding.check, finding.level) == ("model", "hurts")
    # 5 GiB + 256 MiB + 1 GiB + 1 MiB, less 90 % of 6 GiB
    assert "913.7 MB are short" in finding.found
    assert "for a sequence of 8192 tokens" in finding.found and "--ctx-size" in finding.fix
    assert "90 % of the available memory" in finding.expected


def test_a_model_fits_from_the_least_memory_that_will_do() -> None:
    needed = FIT.weights + FIT.activations + FIT.kv + FIT.logits
    enough = -(-needed * 10 // 9) + 1
    for available, level in ((enough, []), (enough - 10, ["hurts"])):
        fit = replace(FIT, budget=MemoryBudget(available, "memory"))
        assert [f.level for f in spoilt(model=Model("llama", fit=fit))] == level


def test_a_damaged_model_hurts_with_what_is_wrong() -> None:
    finding = only(model=Model("llama", problem="tensor 3 lies outside"))
    assert (finding.check, finding.level) == ("model", "hurts")
    assert finding.found == "tensor 3 lies outside"


def disk(bytes_per_s: float, drive: str = "", size: int = 512 << 20) -> Model:
    return Model("llama", fit=FIT, drive=drive, disk=DiskSpeed(size, size / bytes_per_s, True))


@pytest.mark.parametrize(
    ("model", "ok"),
    [
        (disk(0.3e9), True),  # 5 GiB in 17.9 s
        (disk(0.25e9, "mmc"), False),  # in 21.5 s
        (disk(0.89e9, "nvme"), False),
        (disk(0.91e9, "nvme"), True),
        (disk(0.5e9, "nvme", size=1 << 20), True),  # too little was read to say so
    ],
)
def test_a_slow_disk_is_a_warning_and_never_worse(model: Model, ok: bool) -> None:
    found = spoilt(model=model)
    assert [(f.check, f.level) for f in found] == ([] if ok else [("disk", "warning")])


def test_the_disk_is_told_with_the_time_that_loading_takes() -> None:
    finding = only(model=disk(0.1e9, "mmc"))
    assert finding.found == "0.10 GB/s: llama is read in 53.7 s (eMMC or SD card)"
    assert "NVMe" in finding.fix
    cached = replace(disk(0.1e9), disk=DiskSpeed(1 << 30, 20.0, direct=False))
    assert "by way of the page cache" in only(model=cached).found
    unread = Model("llama", fit=FIT, disk_problem="cannot be read")
    assert only(model=unread).level == "unknown"
    assert spoilt(model=Model("llama", fit=FIT)) == []  # with --no-load
