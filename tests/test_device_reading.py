"""Readings as JSON: what is written is read again, and nothing else is taken for a reading."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.device.reading import Core, Reading
from orin_llm.errors import OrinError

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 1 << 60)
WORDS = st.lists(st.text(max_size=8), max_size=3).map(tuple)
BY_NAME = st.dictionaries(st.text(max_size=8), NUMBERS, max_size=3)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "at_ms": NUMBERS,
    "sources": WORDS,
    "unknown": WORDS,
    "throttled": st.none() | WORDS,
    "temperatures_c": BY_NAME,
    "rails_w": BY_NAME,
    "cores": st.lists(
        st.builds(Core, st.booleans(), st.none() | NUMBERS, st.none() | NUMBERS), max_size=3
    ).map(tuple),
}
READINGS = st.fixed_dictionaries(
    {
        entry.name: KINDS.get(
            entry.name, st.none() | (COUNTS if entry.name.endswith("bytes") else NUMBERS)
        )
        for entry in fields(Reading)
    }
).map(lambda values: Reading(**values))


@given(READINGS)
def test_a_reading_written_as_json_is_read_as_the_same(reading: Reading) -> None:
    assert Reading.from_json(json.loads(json.dumps(reading.to_json()))) == reading


def test_what_a_later_version_adds_is_left_out() -> None:
    assert Reading.from_json({"at_ms": 1, "humidity": 3, "gpu_percent": 5}) == Reading(
        1, gpu_percent=5
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"at_ms": None},
        {"at_ms": "1"},
        {"at_ms": float("nan")},
        {"at_ms": 10**400},
        {"at_ms": True},
        {"at_ms": 1, "gpu_percent": "5"},
        {"at_ms": 1, "gpu_percent": float("inf")},
        {"at_ms": 1, "gpu_percent": [5]},
        {"at_ms": 1, "cores": None},
        {"at_ms": 1, "cores": 3},
        {"at_ms": 1, "cores": [3]},
        {"at_ms": 1, "cores": [{"online": 1}]},
        {"at_ms": 1, "cores": [{"online": True, "mhz": "fast"}]},
        {"at_ms": 1, "throttled": 2},
        {"at_ms": 1, "throttled": [2]},
        {"at_ms": 1, "sources": None},
        {"at_ms": 1, "rails_w": {"VDD": None}},
        {"at_ms": 1, "rails_w": [1]},
        {"at_ms": 1, "temperatures_c": 40},
    ],
)
def test_what_is_no_reading_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OrinError, match="reading"):
        Reading.from_json(wrong)
