"""Trace files: both kinds are read, and what is wrong is named with its line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orin_llm.bench.trace import FIELDS, TracedRequest, read_trace
from orin_llm.errors import UsageError

traces = st.lists(
    st.builds(
        TracedRequest,
        st.floats(0, 1e9).map(lambda value: round(value, 3)),
        st.integers(1, 10**6),
        st.integers(1, 10**6),
    ),
    min_size=1,
    max_size=20,
)
in_one_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def by_arrival(requests: list[TracedRequest]) -> tuple[TracedRequest, ...]:
    return tuple(sorted(requests, key=lambda request: request.arrival_ms))


@in_one_folder
@given(traces)
def test_json_lines_and_csv_are_read_alike_in_order_of_arrival(
    tmp_path: Path, requests: list[TracedRequest]
) -> None:
    lines = "\n".join(json.dumps({**vars(request), "user": "x"}) for request in requests)
    table = io.StringIO()
    writer = csv.DictWriter(table, [*reversed(FIELDS), "user"])
    writer.writeheader()
    writer.writerows({**vars(request), "user": "a, b"} for request in requests)
    for text in (lines, lines + "\n\n", table.getvalue()):
        path = tmp_path / "trace"
        path.write_text(text)
        assert read_trace(path) == by_arrival(requests)


GOOD = '{"arrival_ms": 0, "prompt_tokens": 5, "max_tokens": 6}\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD + "{", "line 2: no JSON"),
        (GOOD + "[1, 2, 3]", "line 2: expected an object"),
        (GOOD + '{"arrival_ms": 0, "prompt_tokens": 5}', "line 2: max_tokens is None"),
        (GOOD.replace("5", "0"), "line 1: prompt_tokens is 0: expected a whole number from 1"),
        (GOOD.replace("6", "1.5"), "line 1: max_tokens is 1.5: expected a whole number"),
        (GOOD.replace("0,", "-1,"), "line 1: arrival_ms is -1: expected a number from 0"),
        (GOOD.replace("0,", "NaN,"), "line 1: arrival_ms is nan"),
        (GOOD.replace("0,", "1e999,"), "line 1: arrival_ms is inf"),
        (GOOD.replace("5", '"many"'), "line 1: prompt_tokens is 'many'"),
        (GOOD.replace("5", "[5]"), r"line 1: prompt_tokens is \[5\]"),
        ("arrival_ms,max_tokens\n0,1\n", "no column prompt_tokens"),
        ("arrival_ms,prompt_tokens,max_tokens\n", "no requests"),
        ("arrival_ms,prompt_tokens,max_tokens\n0,5\n", "line 2: max_tokens is None"),
        ("", "no column"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read_trace(path)


def test_a_trace_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--trace .*none: No such file.*: name a file of JSON"):
        read_trace(tmp_path / "none")
    with pytest.raises(UsageError, match="Is a directory"):
        read_trace(tmp_path)


def test_what_csv_cannot_read_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(f"{','.join(FIELDS)}\n0,1,1\n0,1,{'1' * 200_000}\n")
    with pytest.raises(UsageError, match=r"trace, line 3: no CSV: field larger than"):
        read_trace(path)


@in_one_folder
@given(st.binary(max_size=200))
def test_any_bytes_are_a_trace_or_a_usage_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    try:
        assert read_trace(path)
    except UsageError as error:
        assert str(path) in str(error)
