"""The stamp of a figure: what machine it is from and how that was set."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import boards

from orin_llm.device.stamp import Stamp, read_stamp

EMC = "sys/kernel/debug/bpmp/debug/clk/emc"


def stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: boards.Jetson) -> Stamp:
    machine = boards.jetson(tmp_path, board)
    monkeypatch.setenv("PATH", machine.path)
    return read_stamp(machine.root)


def test_a_board_tells_its_module_its_release_and_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = stamp(tmp_path, monkeypatch, boards.AGX_64_JP6)
    assert (found.kind, found.module, found.gpu) == ("jetson", "p3701-0005", "Orin GPU")
    assert (found.l4t, found.jetpack, found.power_mode) == ("36.4.3", "6.2", "MODE_30W")
    assert (found.gpu_units, found.gpu_cap_mhz, found.cores) == (4, 612, 8)
    assert (found.emc_cap_mhz, found.clocks_pinned) == (3199, False)
    assert json.loads(json.dumps(found.to_json())) == found.to_json()


@pytest.mark.parametrize(
    ("mode", "firmware", "cap"),
    [("MAXN", 3199, 3199), ("MAXN", 2133, 2133), ("MODE_15W", 3199, 2133), ("MODE_15W", 665, 665)],
)
def test_the_memorys_cap_is_the_lower_of_the_modes_and_the_firmwares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, firmware: int, cap: int
) -> None:
    board = replace(boards.AGX_64_JP6, mode=mode, emc_firmware_mhz=firmware)
    assert stamp(tmp_path, monkeypatch, board).emc_cap_mhz == cap


def test_a_firmwares_cap_that_cannot_be_read_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = replace(boards.AGX_64_JP6, mode="MAXN", root=False)
    assert stamp(tmp_path, monkeypatch, board).emc_cap_mhz is None


def test_units_that_a_module_never_had_are_not_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = replace(
        boards.AGX_32_JP6, mode="MAXN", modes=(replace(boards.MODES_32[0], tpc_mask=0),)
    )
    assert stamp(tmp_path, monkeypatch, board).gpu_units == 7


def test_clocks_are_pinned_when_neither_the_gpus_nor_the_memorys_can_go_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = boards.jetson(tmp_path, replace(boards.AGX_64_JP6, mode="MAXN"))
    monkeypatch.setenv("PATH", machine.path)
    clock = "sys/devices/platform/17000000.gpu/devfreq_dev"
    machine.write(f"{clock}/min_freq", (machine.root / clock / "max_freq").read_text())
    assert read_stamp(machine.root).clocks_pinned is True
    machine.write(f"{EMC}/mrq_rate_locked", "0\n")
    assert read_stamp(machine.root).clocks_pinned is False
    (machine.root / clock / "min_freq").unlink()
    assert read_stamp(machine.root).clocks_pinned is None


def test_of_a_pc_nothing_is_told_that_only_a_board_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = boards.pc_with_gpu(tmp_path)
    monkeypatch.setenv("PATH", machine.path)
    found = read_stamp(machine.root)
    assert (found.kind, found.board, found.gpu) == ("pc-gpu", "Workstation 4", "NVIDIA RTX 4090")
    only_a_board = (
        found.module, found.l4t, found.jetpack, found.power_mode, found.gpu_units,
        found.gpu_cap_mhz, found.emc_cap_mhz, found.clocks_pinned,
    )  # fmt: skip
    assert only_a_board == (None,) * 8
