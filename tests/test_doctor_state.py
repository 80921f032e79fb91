"""doctor's checks of memory, swap, heat, fan, releases, services and settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doctor_support import GOOD, LOAD, MEMORY, PC, READING, only, spoilt

from orin_llm.device.board import jetpack
from orin_llm.doctor.machine import Swap
from orin_llm.doctor.software import UNIFIED_MEMORY
from orin_llm.host.memory import Memory


def test_little_memory_is_a_warning() -> None:
    little = Memory(1 << 30, 100 << 20, 0, 0, None, limited=False)
    finding = only(memory=little)
    assert (finding.check, finding.level) == ("memory", "warning")
    assert "only 104.9 MB" in finding.found
    assert spoilt(memory=replace(MEMORY, available=1 << 30)) == []


def test_memory_that_cannot_be_read_is_unknown() -> None:
    nothing = Memory(0, 0, 0, 0, None, limited=False)
    memory, model = spoilt(memory=nothing)
    assert (memory.check, model.check) == ("memory", "model")
    assert memory.level == model.level == "unknown"


@pytest.mark.parametrize(
    ("block", "count", "ok"),
    [
        (4 << 20, 246, True),  # just above 2 % of 48 GiB
        (4 << 20, 245, False),
        (2 << 20, 4096, False),
        (512 << 10, 1, False),
    ],
)
def test_free_memory_in_small_pieces_is_a_warning(block: int, count: int, ok: bool) -> None:
    reading = replace(READING, largest_free_block_bytes=block, largest_free_blocks=count)
    found = spoilt(at_rest=reading)
    assert (found == []) is ok
    for finding in found:
        assert (finding.check, finding.level) == ("free blocks", "warning")
        assert "drop_caches" in finding.fix and "reboot" in finding.fix


def test_free_blocks_are_told_in_their_unit_or_are_unknown() -> None:
    half = replace(READING, largest_free_block_bytes=512 << 10, largest_free_blocks=1)
    assert "1 of 512 KiB" in only(at_rest=half).found
    assert only(at_rest=replace(READING, largest_free_blocks=None)).level == "unknown"


def test_zram_is_a_warning_and_no_swap_a_note() -> None:
    zram = Swap("/dev/zram0", 4 << 30, 1 << 20)
    finding = only(system={"swaps": (zram, Swap("/swapfile", 1 << 30, 0))})
    assert (finding.check, finding.level) == ("swap", "warning")
    assert finding.found.startswith("zram (1.0 MB in it)")
    assert finding.fix.endswith("setup apply --only swapfile --only zram")
    finding = only(system={"swaps": ()})
    assert finding.level == "note" and finding.fix.endswith("--only swapfile")
    assert only(system={"swaps": None}).level == "unknown"


@pytest.mark.parametrize(
    ("celsius", "level"),
    [(84.9, None), (85.0, "warning"), (98.9, "warning"), (99.0, "hurts"), (104.0, "hurts")],
)
@pytest.mark.parametrize("when", ["at_rest", "under_load"])
def test_heat_is_judged_by_the_hottest_sensor(celsius: float, level: str | None, when: str) -> None:
    hot = replace(READING, temperatures_c={"cpu": 40.0, "tj": celsius})
    change = {"at_rest": hot, "under_load": replace(LOAD, readings=(LOAD.readings[1], hot))}
    found = spoilt(**{when: change[when]})
    assert [finding.level for finding in found] == ([level] if level else [])
    for finding in found:
        assert finding.check == "temperature" and f"{celsius:.1f} °C (tj)" in finding.found
        assert "--only fan" in finding.fix


def test_no_sensor_of_heat_is_unknown() -> None:
    cold = replace(READING, temperatures_c={})
    finding = only(at_rest=cold, under_load=replace(LOAD, readings=(replace(cold, emc_mhz=3199),)))
    assert (finding.check, finding.level) == ("temperature", "unknown")


def test_throttling_hurts_also_when_it_begins_under_load() -> None:
    slowed = replace(LOAD.readings[1], throttled=("gpu", "cpu"))
    finding = only(under_load=replace(LOAD, readings=(slowed,)))
    assert (finding.check, finding.level) == ("throttling", "hurts")
    assert "lowered now: cpu, gpu" in finding.found
    silent = replace(READING, throttled=None)
    assert spoilt(at_rest=silent) == []
    loaded = replace(LOAD.readings[1], throttled=None)
    finding = only(at_rest=silent, under_load=replace(LOAD, readings=(loaded,)))
    assert finding.level == "unknown"


def test_over_current_is_a_warning_with_its_count() -> None:
    later = replace(LOAD.readings[1], over_current_events=1)
    finding = only(under_load=replace(LOAD, readings=(later,)))
    assert (finding.check, finding.level) == ("over-current", "warning")
    assert finding.found.startswith("1 event since")
    assert only(at_rest=replace(READING, over_current_events=3)).found.startswith("3 events")
    found = spoilt(at_rest=replace(READING, over_current_events=None), under_load=None)
    assert [(finding.check, finding.level) for finding in found] == [
        ("memory clock", "unknown"),
        ("over-current", "unknown"),
    ]


def test_a_quiet_fan_is_a_warning() -> None:
    finding = only(system={"fan_profile": "quiet"})
    assert (finding.check, finding.level, finding.expected) == ("fan", "warning", "cool")
    assert only(system={"fan_profile": None}).level == "unknown"
    assert spoilt(system={"fan_profile": "manual"}) == []


@pytest.mark.parametrize(
    ("release", "level"),
    [("36.4.7", "hurts"), ("36.4.4", None), ("36.5", None), (None, "unknown")],
)
def test_the_release_in_which_large_allocations_fail_hurts(
    release: str | None, level: str | None
) -> None:
    found = spoilt(board={"l4t": release})
    assert [finding.level for finding in found] == ([level] if level else [])
    if level == "hurts":
        assert "error 12" in found[0].found and "36.5" in found[0].fix


@pytest.mark.parametrize("release", ["34.1.1", "35.1", "35.4.1", "35.99"])
def test_jetpack_5_is_out_of_support(release: str) -> None:
    finding = only(board={"l4t": release, "jetpack": jetpack(release)})
    assert (finding.check, finding.level) == ("JetPack", "warning")
    assert "JetPack 5." in finding.found and "out of support" in finding.found
    assert "scripts/flash_orin.sh" in finding.fix
    for newer in ("36.3", "38.2", "39.2"):
        assert spoilt(board={"l4t": newer, "jetpack": jetpack(newer)}) == []


def test_a_desktop_is_a_warning() -> None:
    finding = only(system={"desktop": "gnome-shell"})
    assert (finding.check, finding.level) == ("desktop", "warning")
    assert "gnome-shell runs" in finding.found and "--only headless" in finding.fix
    assert only(system={"desktop": None}).level == "unknown"


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_unified_memory_hurts_with_any_value(value: str) -> None:
    finding = only(environ={UNIFIED_MEMORY: value})
    assert (finding.check, finding.level) == ("unified memory", "hurts")
    assert finding.fix == f"unset {UNIFIED_MEMORY}"


def test_unified_memory_is_no_matter_of_a_cpu_build_on_a_pc() -> None:
    assert spoilt(PC, environ={UNIFIED_MEMORY: "1"}) == []
    _, finding = spoilt(PC, environ={UNIFIED_MEMORY: "1"}, build=GOOD.build)
    assert (finding.check, finding.level) == ("unified memory", "warning")


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("Mismatch version jtop service: [4.2.2] and client: [4.2.1]", "install -U jetson-stats"),
        ("The jtop.service is not active. Please run:\nsudo jtop", "systemctl restart jtop"),
        ("I can't access jtop.service.\nPlease logout or reboot this board.", "--only groups"),
        ("[Errno 13] Permission denied", "--only groups"),
        ("jetson-stats cannot be used: No module named 'x'", "pip install -U"),
        ("something new", "systemctl restart jtop"),
    ],
)
def test_what_keeps_jetson_stats_from_answering_has_its_remedy(said: str, fix: str) -> None:
    silent = replace(READING, sources=("tegrastats",))
    finding = only(at_rest=silent, sensor_problems={"jtop": f"jtop: {said}"})
    assert (finding.check, finding.level) == ("jetson-stats", "warning")
    assert finding.found == " ".join(said.split()) and fix in finding.fix


def test_jetson_stats_need_not_be_installed() -> None:
    silent = replace(READING, sources=("tegrastats",))
    assert spoilt(at_rest=silent, sensor_problems={"jtop": "jetson-stats is not installed"}) == []
    assert spoilt(at_rest=silent) == []
