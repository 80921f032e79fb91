"""doctor's checks of power mode, GPU units, clocks, and the memory's clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doctor_support import GOOD, LOAD, MODES, READING, mode, only, spoilt

from orin_llm.device.board import Board
from orin_llm.device.modules import AGX_ORIN_32GB
from orin_llm.device.power_modes import parse_power_modes
from orin_llm.device.probes.load import UnderLoad
from orin_llm.doctor.machine import Power
from orin_llm.doctor.power import fastest

SUDO = "sudo /opt/venv/bin/orin-llm"
BOARD_32 = Board("jetson", (), "a board", AGX_ORIN_32GB, "36.4.3", "6.2")


@pytest.mark.parametrize(
    ("name", "level", "takes"),
    [
        ("MODE_30W", "hurts", "8 of 16 SMs, GPU 612 of 1300.5 MHz"),
        ("MODE_15W", "hurts", "6 of 16 SMs, GPU 408 of 1300.5 MHz, memory 2133 of 3199 MHz"),
        ("MODE_50W", "warning", "16 of 16 SMs, GPU 816 of 1300.5 MHz"),
    ],
)
def test_a_slower_mode_is_told_with_what_it_takes(name: str, level: str, takes: str) -> None:
    finding = only(power=mode(name))
    assert (finding.check, finding.level) == ("power mode", level)
    assert finding.found == f"{name} ({takes})" and finding.expected == "MAXN"
    assert finding.fix == f"{SUDO} setup apply --only power-mode"


def test_root_needs_no_sudo() -> None:
    finding = only(power=mode("MODE_30W"), is_root=True)
    assert finding.fix == "orin-llm setup apply --only power-mode"


def test_a_mode_that_setup_has_set_is_a_note() -> None:
    finding = only(power=replace(mode("MODE_30W"), by_setup=True))
    assert finding.level == "note" and "set by orin-llm setup (8 of 16" in finding.found


def test_a_mode_that_waits_for_a_boot_asks_for_it() -> None:
    for name, by_setup in (("MAXN", True), ("MAXN", False), ("50W", True)):
        finding = only(power=Power(MODES, MODES.named("30W"), MODES.named(name), by_setup))
        assert finding.level == "hurts" and finding.fix == "sudo reboot"
        assert finding.expected.endswith(f"{name}, which is set for the next boot")
    finding = only(power=Power(MODES, MODES.named("30W"), MODES.named("15W")))
    assert "setup apply" in finding.fix  # nobody knows who wants that one


@pytest.mark.parametrize("power", [Power(), Power(MODES, None, None)])
def test_a_mode_that_nothing_tells_is_unknown(power: Power) -> None:
    finding = only(power=power)
    assert (finding.check, finding.level) == ("power mode", "unknown")


def modes_of(*names: str) -> Power:
    text = "".join(f"< POWER_MODEL ID={n} NAME={name} >\n" for n, name in enumerate(names))
    modes = parse_power_modes(text)
    return Power(modes, modes.modes[0], modes.modes[0])


def test_the_fastest_mode_goes_by_its_name() -> None:
    assert fastest(MODES).name == "MAXN"
    finding = only(power=modes_of("15W", "25W", "MAXN", "MAXN_SUPER", "MYMODE"))
    assert finding.expected == "MAXN_SUPER" and finding.fix.endswith("--mode MAXN_SUPER")
    assert only(power=modes_of("7W", "15W", "10W")).expected == "15W"


def test_gated_units_are_counted_of_the_module() -> None:
    finding = only(caps={"tpc_mask": 240})
    assert (finding.check, finding.level, finding.fix) == ("GPU units", "hurts", "sudo reboot")
    assert finding.found == "8 of 16 SMs are on (TPC mask 240)"
    _, finding = spoilt(power=mode("MODE_30W"), caps={"tpc_mask": 240})
    assert "power mode" in finding.fix


@pytest.mark.parametrize(("mask", "ok"), [(128, True), (0, True), (1, True), (192, False)])
def test_a_module_with_fewer_units_has_all_of_its_own(mask: int, ok: bool) -> None:
    found = spoilt(board=BOARD_32, caps={"tpc_mask": mask, "cpus_online": 8})
    assert ("GPU units" not in [finding.check for finding in found]) is ok


def test_units_that_cannot_be_read_or_compared_are_unknown() -> None:
    assert only(caps={"tpc_mask": None}).level == "unknown"
    finding = only(board=replace(GOOD.board, module=None))
    assert (finding.check, finding.level) == ("GPU units", "unknown")
    assert "module is not known" in finding.found


def test_clocks_that_move_are_a_warning() -> None:
    finding = only(caps={"gpu_min_mhz": 306})
    assert (finding.check, finding.level) == ("jetson_clocks", "warning")
    assert "between 306 and 1300.5 MHz" in finding.found
    assert finding.fix == f"{SUDO} setup apply --only clocks"


def test_a_memory_that_is_not_pinned_is_told_where_it_can_be_read() -> None:
    assert "the memory's is not" in only(system={"emc_pinned": False}).found
    assert spoilt(system={"emc_pinned": None}) == []


def test_clocks_of_the_gpu_that_cannot_be_read_are_unknown() -> None:
    cap, pinned = spoilt(caps={"gpu_max_mhz": None})
    assert (cap.check, pinned.check) == ("GPU clock", "jetson_clocks")
    assert pinned.level == cap.level == "unknown"
    assert only(caps={"gpu_min_mhz": None}).check == "jetson_clocks"


def test_a_gpu_clock_below_the_module_hurts_unless_the_mode_says_so() -> None:
    caps = {"gpu_min_mhz": 612, "gpu_max_mhz": 612}
    finding = only(caps=caps)
    assert (finding.check, finding.level) == ("GPU clock", "hurts")
    assert "612 of 1300.5 MHz, and not by" in finding.found
    assert finding.expected == "1300.5 MHz"
    _, note = spoilt(caps=caps, power=mode("MODE_30W"))
    assert (note.check, note.level) == ("GPU clock", "note")
    lower, _ = spoilt(caps=caps, power=mode("MODE_50W"))
    assert (lower.level, lower.expected) == ("hurts", "816 MHz")


def test_cores_that_are_off_are_a_warning_unless_the_mode_says_so() -> None:
    finding = only(caps={"cpus_online": 8})
    assert (finding.check, finding.level) == ("CPU cores", "warning")
    assert finding.found.startswith("8 of 12 cores are on, up to 2201.6 of 2201.6 MHz")
    _, note = spoilt(caps={"cpus_online": 8, "cpu_max_mhz": 1728}, power=mode("MODE_30W"))
    assert (note.check, note.level) == ("CPU cores", "note")
    _, fewer = spoilt(caps={"cpus_online": 6, "cpu_max_mhz": 1728}, power=mode("MODE_30W"))
    assert (fewer.check, fewer.level) == ("CPU cores", "warning")
    _, slower = spoilt(caps={"cpus_online": 8, "cpu_max_mhz": 1113.6}, power=mode("MODE_30W"))
    assert slower.level == "warning"
    assert only(caps={"cpus_online": None}).level == "unknown"
    assert spoilt(system={"cpu_hardware_mhz": None}) == []


def test_a_cap_of_the_memory_hurts_with_the_bandwidth_that_it_leaves() -> None:
    cap, bandwidth = spoilt(caps={"emc_cap_mhz": 2133}), 136.6
    (finding,) = cap
    assert (finding.check, finding.level) == ("memory cap", "hurts")
    assert f"2133 of 3199 MHz: {bandwidth} of 204.8 GB/s" in finding.found
    assert finding.fix == f"{SUDO} setup apply --only emc-cap"
    _, finding = spoilt(caps={"emc_cap_mhz": 2133}, power=mode("MODE_15W"))
    assert "by MODE_15W" in finding.found and "--only power-mode" in finding.fix
    assert spoilt(caps={"emc_cap_mhz": 3199}) == []


def test_a_cap_of_the_firmware_hurts_too() -> None:
    finding = only(caps={"emc_firmware_max_mhz": 2133})
    assert (finding.check, finding.level) == ("firmware's cap", "hurts")
    assert "136.6 of 204.8 GB/s" in finding.found and "--only emc-cap" in finding.fix


def under_load(*clocks: float | None) -> UnderLoad:
    return UnderLoad(tuple(replace(READING, emc_mhz=clock) for clock in clocks), 80.0)


def test_the_memorys_clock_under_load_is_the_highest_that_was_seen() -> None:
    assert spoilt(under_load=under_load(204, 3199, 665.6)) == []
    finding = only(under_load=under_load(204, 2133))
    assert (finding.check, finding.level) == ("memory clock", "hurts")
    assert "2133 of 3199 MHz: 136.6 of 204.8 GB/s under load" in finding.found
    assert "--only emc-cap --only clocks" in finding.fix
    _, finding = spoilt(under_load=under_load(2133), caps={"emc_firmware_max_mhz": 2133})
    assert finding.fix == "lift the cap that is named above"


def test_without_root_the_memorys_clock_is_unknown_with_two_ways_to_read_it() -> None:
    found = spoilt(under_load=under_load(None), caps={"emc_firmware_max_mhz": None})
    assert [finding.check for finding in found] == ["firmware's cap", "memory clock"]
    for finding in found:
        assert finding.level == "unknown" and finding.found == "only root can read it"
        assert f"{SUDO} doctor;" in finding.fix and "--only udev" in finding.fix


def test_root_is_not_told_to_be_root() -> None:
    finding = only(under_load=under_load(None), is_root=True)
    assert "debugfs" in finding.found and "sudo" not in finding.fix


def test_no_load_leaves_the_clock_under_load_unknown() -> None:
    finding = only(under_load=None)
    assert (finding.check, finding.level) == ("memory clock", "unknown")
    assert "--no-load" in finding.found
    assert spoilt(under_load=LOAD) == []
