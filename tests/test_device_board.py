"""Boards known by their device tree, and the power modes and caps of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import boards
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.device.board import jetpack, read_board
from orin_llm.device.caps import read_caps
from orin_llm.device.modules import MODULES
from orin_llm.device.nodes import cpu_list
from orin_llm.device.power_modes import (
    PowerMode,
    current_power_mode,
    parse_power_modes,
    read_power_modes,
)
from orin_llm.errors import DeviceUnavailable, UsageError

Install = Callable[[Callable[[Path], boards.Machine]], boards.Machine]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a machine whose tools are the first on PATH."""

    def make(build: Callable[[Path], boards.Machine]) -> boards.Machine:
        machine = build(tmp_path)
        monkeypatch.setenv("PATH", machine.path)
        return machine

    return make


def on(install: Install, board: boards.Jetson) -> Path:
    return install(lambda folder: boards.jetson(folder, board)).root


@pytest.mark.parametrize("name", boards.JETSONS)
def test_a_jetson_is_known_by_its_device_tree(install: Install, name: str) -> None:
    wanted = boards.JETSONS[name]
    board = read_board(on(install, wanted))
    assert board.kind == "jetson" and board.is_jetson
    assert board.module is MODULES[wanted.part]
    assert board.l4t == {"6.2": "36.4.3", "5.1": "35.2.1"}[wanted.jetpack]
    assert board.jetpack == wanted.jetpack
    assert board.name == "NVIDIA Jetson AGX Orin Developer Kit"
    assert board.compatible[-1] == "nvidia,tegra234"
    assert board.to_json()["module"]["part"] == wanted.part


def test_a_carrier_of_another_name_is_the_same_module(install: Install) -> None:
    root = on(install, replace(boards.AGX_64_JP6, model="Lanner EAI-I233"))
    board = read_board(root)
    assert board.name == "Lanner EAI-I233" and board.module is MODULES["p3701-0005"]


def test_a_jetson_of_another_chip_has_no_module_that_is_known(tmp_path: Path) -> None:
    machine = boards.Machine(tmp_path, tmp_path)
    machine.write("proc/device-tree/compatible", "nvidia,p2972-0000\0nvidia,tegra194\0")
    board = read_board(tmp_path)
    assert (board.kind, board.module, board.l4t, board.jetpack) == ("jetson", None, None, None)


def test_a_jetson_is_one_in_a_container_that_hides_the_device_tree(tmp_path: Path) -> None:
    machine = boards.Machine(tmp_path, tmp_path)
    machine.write("sys/devices/soc0/family", "Tegra\n")
    machine.write("sys/devices/soc0/soc_id", "35\n")
    board = read_board(tmp_path)
    assert (board.kind, board.name, board.compatible) == ("jetson", "nvidia,tegra234", ())
    assert board.module is None and board.l4t is None


def test_a_pc_is_no_jetson(install: Install) -> None:
    board = read_board(install(boards.pc).root)
    assert (board.kind, board.name, board.compatible) == ("pc", "Workstation 4", ())
    assert not board.is_jetson and board.module is None and board.l4t is None


def test_a_pc_with_a_gpu_stays_one_when_the_gpu_is_hidden_or_its_driver_fails(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = install(boards.pc_with_gpu)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert read_board(machine.root).kind == "pc-gpu"
    machine.tool("nvidia-smi", "exit 9")
    assert read_board(machine.root).kind == "pc-gpu"


def test_a_pc_where_gpus_are_hidden_has_none_all_the_same(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = install(boards.pc)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert read_board(machine.root).kind == "pc"


def test_another_arm_board_is_a_pc(tmp_path: Path, install: Install) -> None:
    machine = install(boards.pc)
    machine.write("proc/device-tree/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0")
    assert read_board(machine.root).kind == "pc"


@pytest.mark.parametrize(
    ("l4t", "known"),
    [
        ("35.2.1", "5.1"), ("35.4.1", "5.1.2"), ("36.3", "6.0"), ("36.3.0", "6.0"),
        ("36.4.0", "6.1"), ("36.4.3", "6.2"), ("36.4.4", "6.2.1"), ("36.4.7", "6.2.1"),
        ("36.5", "6.2.2"), ("39.2", "7.2"), ("36.9.9", "6.x"), ("35.99", "5.x"), ("99.1", None),
    ],
)  # fmt: skip
def test_which_jetpack_has_which_release(l4t: str, known: str | None) -> None:
    assert jetpack(l4t) == known


@pytest.mark.parametrize("release", ["", "# R (release)", "\xff\xfe", "R36, REVISION: 4"])
def test_a_release_file_that_is_something_else_tells_nothing(
    install: Install, release: str
) -> None:
    machine = install(lambda folder: boards.jetson(folder, boards.AGX_64_JP6))
    machine.write("etc/nv_tegra_release", release.encode("latin-1"))
    assert read_board(machine.root).l4t is None


def test_the_modes_of_the_64_gb_module(install: Install) -> None:
    modes = read_power_modes(on(install, boards.AGX_64_JP6))
    assert modes.modes == (
        PowerMode(0, "MAXN", None, 12, None, None, 0, None),
        PowerMode(1, "MODE_15W", 15, 4, 1113.6, 408, 248, 2133),
        PowerMode(2, "MODE_30W", 30, 8, 1728, 612, 240, None),
        PowerMode(3, "MODE_50W", 50, 12, 1497.6, 816, 0, None),
    )
    assert [mode.sm_count for mode in modes.modes] == [16, 6, 8, 16]
    assert modes.default is modes.named("30W")


def test_the_modes_of_the_32_gb_module(install: Install) -> None:
    modes = read_power_modes(on(install, boards.AGX_32_JP5))
    assert [mode.name for mode in modes.modes] == ["MAXN", "MODE_15W", "MODE_30W", "MODE_40W"]
    assert [mode.sm_count for mode in modes.modes] == [14, 6, 8, 14]
    assert [mode.cpu_cores for mode in modes.modes] == [8, 4, 8, 8]


def test_a_mode_is_meant_by_its_name_not_by_its_number(install: Install) -> None:
    modes = read_power_modes(on(install, boards.AGX_64_JP6))
    assert [modes.named(name).id for name in ("maxn", "mode_15w", "30W", "MODE_50W")] == [
        0,
        1,
        2,
        3,
    ]
    with pytest.raises(UsageError, match="'40W'. It has: MAXN, MODE_15W, MODE_30W, MODE_50W"):
        modes.named("40W")
    with pytest.raises(UsageError):
        modes.named("3")


def test_modes_can_stand_in_any_order_and_have_any_number() -> None:
    shuffled = tuple(replace(mode, id=9 - n) for n, mode in enumerate(reversed(boards.MODES_64)))
    modes = parse_power_modes(boards.nvpmodel_conf(shuffled, default=7))
    assert modes.named("MAXN").id == 6 and modes.named("MAXN").sm_count == 16
    assert modes.default is not None and modes.default.name == "MODE_15W"


def test_a_cap_of_zero_is_none_as_of_minus_one() -> None:
    text = "< POWER_MODEL ID=0 NAME=X >\nEMC MAX_FREQ 0\nGPU MAX_FREQ -1\nCPU_A78_0 MAX_FREQ -1\n"
    (mode,) = parse_power_modes(text).modes
    assert (mode.emc_max_mhz, mode.gpu_max_mhz, mode.cpu_max_mhz) == (None, None, None)
    assert (mode.cpu_cores, mode.tpc_mask, mode.sm_count) == (None, None, None)


def test_what_stands_in_other_sections_is_of_no_mode() -> None:
    text = "< POWER_MODEL ID=0 NAME=X >\nGPU MAX_FREQ 5000000\n<PARAM TYPE=CLOCK NAME=Y>\n"
    (mode,) = parse_power_modes(text + "GPU MAX_FREQ 9000000\n< PM_CONFIG DEFAULT=4 >").modes
    assert mode.gpu_max_mhz == 5


LINES = (
    "< POWER_MODEL ID=1 NAME=A >", "< POWER_MODEL ID=99999999999 NAME=A >", "#<",
    "< PM_CONFIG DEFAULT=1 >", "CPU_ONLINE CORE_0 1", "GPU MAX_FREQ x", "TPC_POWER_GATING",
    "EMC MAX_FREQ " + "9" * 400,
)  # fmt: skip


@given(st.text(max_size=300) | st.lists(st.sampled_from(LINES)).map("\n".join))
def test_any_text_is_survived(text: str) -> None:
    modes = parse_power_modes(text)
    assert modes.default is None or modes.default in modes.modes


def test_a_machine_without_modes_says_that_it_is_no_jetson(install: Install) -> None:
    with pytest.raises(DeviceUnavailable, match="only a Jetson has them"):
        read_power_modes(install(boards.pc).root)


def test_a_file_without_modes_is_told(install: Install) -> None:
    machine = install(boards.pc)
    machine.write("etc/nvpmodel.conf", "# nothing\n")
    with pytest.raises(DeviceUnavailable, match="nvidia-l4t-nvpmodel"):
        read_power_modes(machine.root)


def test_nvpmodel_tells_the_mode_that_is_set(install: Install) -> None:
    machine = install(lambda folder: boards.jetson(folder, boards.AGX_64_JP6))
    machine.tool("nvpmodel", "echo 'NVPM WARN: x'; echo 'NV Power Mode: MODE_50W'; echo 3")
    modes = read_power_modes(machine.root)
    assert current_power_mode(modes, machine.root) is modes.named("50W")


@pytest.mark.parametrize("script", ["exit 1", "echo garbage", "echo 'NV Power Mode: OTHER'"])
def test_where_nvpmodel_does_not_tell_its_status_file_does(install: Install, script: str) -> None:
    machine = install(lambda folder: boards.jetson(folder, boards.AGX_64_JP6))
    machine.tool("nvpmodel", script)
    machine.write("var/lib/nvpmodel/status", "pmode:0001 fmode:fan_mode_quiet\n")
    modes = read_power_modes(machine.root)
    assert current_power_mode(modes, machine.root) is modes.named("15W")


def test_where_neither_tells_the_mode_is_not_known(install: Install) -> None:
    machine = install(lambda folder: boards.jetson(folder, boards.AGX_64_JP6))
    (machine.bin / "nvpmodel").unlink()
    (machine.root / "var/lib/nvpmodel/status").unlink()
    assert current_power_mode(read_power_modes(machine.root), machine.root) is None


@pytest.mark.parametrize("name", boards.JETSONS)
def test_the_caps_of_the_default_mode(install: Install, name: str) -> None:
    wanted = boards.JETSONS[name]
    module = MODULES[wanted.part]
    caps = read_caps(on(install, wanted))
    assert (caps.cpus_online, caps.cpu_max_mhz) == (8, 2201.6)
    assert (caps.gpu_min_mhz, caps.gpu_max_mhz, caps.sm_count) == (306, 612, 8)
    assert caps.emc_cap_mhz is None
    assert caps.emc_mhz == caps.emc_firmware_max_mhz == (3199 if wanted.root else None)
    assert caps.emc_max_mhz(module) == 3199
    assert caps.peak_bandwidth_gb_s(module) == pytest.approx(204.8)


def test_the_cap_of_the_firmware_counts_where_it_is_lower_than_that_of_the_mode(
    install: Install,
) -> None:
    caps = read_caps(on(install, replace(boards.AGX_64_JP6, emc_firmware_mhz=2133)))
    assert caps.peak_bandwidth_gb_s(MODULES["p3701-0005"]) == pytest.approx(136.56, abs=0.01)


def test_the_cap_of_the_mode_counts_where_it_is_lower_than_that_of_the_firmware(
    install: Install,
) -> None:
    caps = read_caps(on(install, replace(boards.AGX_64_JP5, mode="MODE_15W")))
    assert caps.emc_cap_mhz == 2133 and caps.emc_firmware_max_mhz == 3199
    assert caps.peak_bandwidth_gb_s(MODULES["p3701-0005"]) == pytest.approx(136.56, abs=0.01)


def test_a_pc_has_no_caps_of_a_jetson(install: Install) -> None:
    caps = read_caps(install(boards.pc).root)
    assert (caps.cpus_online, caps.gpu_max_mhz, caps.sm_count, caps.emc_cap_mhz) == (4, *[None] * 3)
    assert caps.peak_bandwidth_gb_s(None) is None


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("0", (0,)),
        ("", ()),
        (None, ()),
        ("a-b", ()),
        ("0-99999999", ()),
    ],
)
def test_lists_of_processors(text: str | None, numbers: tuple[int, ...]) -> None:
    assert cpu_list(text) == numbers
