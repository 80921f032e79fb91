"""Whatever cannot be read, and whatever module it is: every check ends, and none raises."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from doctor_support import GOOD, PC, spoilt
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.device.modules import MODULES
from orin_llm.device.reading import Reading
from orin_llm.doctor.catalogue import CHECKS, check
from orin_llm.doctor.finding import LEVELS
from orin_llm.doctor.machine import Machine

# Parts of a machine, and what each of their fields is when it cannot be read.
UNREAD: dict[str, dict[str, Any]] = {
    "caps": {field.name: None for field in fields(GOOD.caps)},
    "power": {"modes": None, "now": None, "at_boot": None},
    "system": {field.name: None for field in fields(GOOD.system) if field.name != "nvcc"},
    "board": {"module": None, "l4t": None, "jetpack": None},
    "at_rest": {
        field.name: getattr(Reading(0), field.name)
        for field in fields(Reading)
        if field.name not in ("at_ms", "sources")
    },
    "cuda": {
        field.name: None if field.name in ("vmm", "kv_grows", "largest_bytes", "copy_gb_s") else ""
        for field in fields(type(GOOD.cuda or GOOD))
        if field.name not in ("integrated", "total_bytes")
    },
}
PLACES = [(part, name) for part, names in UNREAD.items() for name in names]


def without(machine: Machine, places: list[tuple[str, str]]) -> Machine:
    for part, name in places:
        whole = getattr(machine, part)
        if whole is not None:
            machine = replace(machine, **{part: replace(whole, **{name: UNREAD[part][name]})})
    return machine


@given(places=st.lists(st.sampled_from(PLACES), unique=True), on_pc=st.booleans())
def test_whatever_is_unread_hurts_nobody(places: list[tuple[str, str]], on_pc: bool) -> None:
    findings = check(without(PC if on_pc else GOOD, places))
    for finding in findings:
        assert finding.level in LEVELS and finding.found
        assert finding.level in ("ok", "unknown"), finding
    assert len({finding.check for finding in findings}) == len(findings)


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_what_is_unread_is_unknown_or_not_needed(place: tuple[str, str]) -> None:
    levels = {finding.level for finding in spoilt(without(GOOD, [place]))}
    assert levels <= {"unknown"}


@pytest.mark.parametrize("part", MODULES)
def test_every_module_can_be_checked(part: str) -> None:
    board = replace(GOOD.board, module=MODULES[part])
    findings = check(replace(GOOD, board=board))
    assert {"power mode", "GPU units", "memory", "model"} <= {f.check for f in findings}
    assert "missing" not in {finding.level for finding in findings}


def test_nothing_at_all_is_known_of_a_board() -> None:
    findings = check(without(GOOD, PLACES))
    assert len(findings) > len(CHECKS) / 2
    assert "unknown" in {finding.level for finding in findings}
