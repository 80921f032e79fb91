"""GPUs found in copies of the device tree, the PCI bus and the driver, and by a fake nvidia-smi."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orin_llm.device.gpu import Gpu, find_gpus

ORIN = b"nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0"
TABLE = """0, GPU-aaaa, NVIDIA H200, 143771, 143000, 9.0, 570.00
1, GPU-bbbb, NVIDIA A100, 81920, 80000, 8.0, 570.00
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, so that no real nvidia-smi is found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def root(tmp_path: Path, path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def nvidia_smi(path: Path, output: str = "", code: int = 0, error: str = "") -> None:
    script = path / "nvidia-smi"
    complain = f"echo {error!r} >&2" if error else ""
    table = f"while read -r line; do echo \"$line\"; done <<'END'\n{output}END"
    script.write_text(f"#!/bin/sh\n{complain}\n{table}\nexit {code}\n")
    script.chmod(0o755)


def jetson(root: Path, *nodes: str) -> Path:
    (root / "proc/device-tree").mkdir(parents=True)
    (root / "proc/device-tree/compatible").write_bytes(ORIN)
    (root / "dev").mkdir()
    for node in nodes:
        (root / "dev" / node).touch()
    return root


def test_a_machine_without_any_has_none_and_no_problem(root: Path) -> None:
    found = find_gpus(root, {})
    assert found.usable == () and found.problem == ""


def test_an_orin_is_known_by_its_device_tree(root: Path) -> None:
    found = find_gpus(jetson(root, "nvmap"), {})
    assert found.usable == (Gpu("Orin GPU", "8.7", integrated=True),)


def test_in_a_container_it_is_known_by_its_chip(root: Path) -> None:
    jetson(root, "nvmap")
    (root / "proc/device-tree/compatible").unlink()
    assert find_gpus(root, {}).usable == ()
    soc = root / "sys/devices/soc0"
    soc.mkdir(parents=True)
    (soc / "family").write_text("Tegra\n")
    (soc / "soc_id").write_text("35\n")
    assert find_gpus(root, {}).usable == (Gpu("Orin GPU", "8.7", integrated=True),)


def test_a_container_without_the_gpu_says_how_to_start_it(root: Path) -> None:
    found = find_gpus(jetson(root), {})
    assert found.usable == () and "--runtime nvidia" in found.problem


def test_another_arm_board_has_no_gpu_of_ours(root: Path) -> None:
    (root / "proc/device-tree").mkdir(parents=True)
    (root / "proc/device-tree/compatible").write_bytes(b"raspberrypi,5-model-b\0brcm,bcm2712\0")
    assert find_gpus(root, {}).usable == ()


def test_nvidia_smi_gives_names_and_memory(root: Path, path: Path) -> None:
    nvidia_smi(path, TABLE)
    first, second = find_gpus(root, {}).usable
    assert first == Gpu("NVIDIA H200", "9.0", False, 143771 << 20, 143000 << 20, "570.00")
    assert second.name == "NVIDIA A100"


def test_figures_that_a_driver_does_not_tell_are_unknown(root: Path, path: Path) -> None:
    nvidia_smi(path, "0, GPU-a, Orin (nvgpu), [N/A], [N/A], [N/A], 540.4.0\ngarbage\n")
    (gpu,) = find_gpus(root, {}).usable
    assert gpu.total_bytes is None and gpu.free_bytes is None and gpu.compute_capability == ""


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("1", ["NVIDIA A100"]),
        ("1,0", ["NVIDIA A100", "NVIDIA H200"]),
        ("GPU-bb", ["NVIDIA A100"]),
        ("0,7,1", ["NVIDIA H200"]),
    ],
)
def test_hidden_gpus_do_not_count(root: Path, path: Path, visible: str, names: list[str]) -> None:
    nvidia_smi(path, TABLE)
    found = find_gpus(root, {"CUDA_VISIBLE_DEVICES": visible})
    assert [gpu.name for gpu in found.usable] == names


@pytest.mark.parametrize("visible", ["", "-1", "9"])
def test_hiding_them_all_is_named_as_the_reason(root: Path, path: Path, visible: str) -> None:
    nvidia_smi(path, TABLE)
    found = find_gpus(root, {"CUDA_VISIBLE_DEVICES": visible})
    assert found.usable == () and f"CUDA_VISIBLE_DEVICES={visible!r}" in found.problem


def on_the_bus(root: Path, vendor: str = "0x10de", kind: str = "0x030200") -> Path:
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(vendor + "\n")
    (device / "class").write_text(kind + "\n")
    return root


def test_a_gpu_without_driver_is_noticed(root: Path) -> None:
    assert "no driver" in find_gpus(on_the_bus(root), {}).problem


def test_what_nvidia_smi_complains_of_is_passed_on(root: Path, path: Path) -> None:
    nvidia_smi(path, code=9, error="Failed to initialize NVML: Driver/library version mismatch")
    assert "version mismatch" in find_gpus(on_the_bus(root), {}).problem


@pytest.mark.parametrize(("vendor", "kind"), [("0x1002", "0x030000"), ("0x10de", "0x040300")])
def test_other_devices_on_the_bus_are_no_gpus_of_ours(root: Path, vendor: str, kind: str) -> None:
    assert find_gpus(on_the_bus(root, vendor, kind), {}).problem == ""


def test_the_drivers_own_list_serves_without_nvidia_smi(root: Path) -> None:
    folder = root / "proc/driver/nvidia/gpus/0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t\t NVIDIA L4\nIRQ:   16\n")
    (gpu,) = find_gpus(root, {}).usable
    assert gpu.name == "NVIDIA L4" and gpu.total_bytes is None


def test_this_machine_answers() -> None:
    assert isinstance(find_gpus(Path("/"), dict(os.environ)).usable, tuple)
