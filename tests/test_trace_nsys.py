"""Exports of Nsight Systems by phase. The exports are synthetic: see nsys_exports."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nsys_exports import MAIN_THREAD, NsysExport, exported_steps

from orin_llm.errors import UsageError
from orin_llm.trace.nsys_export import Export, Work, read_export
from orin_llm.trace.nsys_summary import Gaps, Summary, summarize


def summary(export: NsysExport, path: Path, **more: list[str]) -> Summary:
    return summarize(read_export(export.write(path, **more)))


def test_work_counts_for_the_step_that_launched_it(tmp_path: Path) -> None:
    found = summary(exported_steps(), tmp_path / "a.sqlite")
    assert [(phase.name, phase.steps) for phase in found.phases] == [
        ("prefill", 1), ("decode", 2), ("other", 0)
    ]  # fmt: skip
    prefill, decode, other = found.phases
    assert [(k.name, k.count, k.total_ms, k.longest_ms) for k in prefill.kernels] == [
        ("gemm<float, 128>", 2, 0.12, 0.06), ("attention", 1, 0.01, 0.01)
    ]  # fmt: skip
    assert [(k.name, k.count) for k in decode.kernels] == [("vector", 2)]
    assert [(c.name, c.count, c.copied_bytes) for c in prefill.copies + decode.copies] == [
        ("host to device", 1, 4096), ("device to host", 1, 64)
    ]  # fmt: skip
    assert [(c.kind, c.copied_bytes) for c in other.copies] == [("memset", 128)]
    assert found.by_launch


def test_gaps_are_of_the_phase_around_them_and_else_between_phases(tmp_path: Path) -> None:
    found = summary(exported_steps(), tmp_path / "a.sqlite")
    prefill, decode, other = found.phases

    def us(gaps: Gaps) -> tuple[int, int, int]:
        return gaps.count, round(gaps.total_ms * 1000), round(gaps.longest_ms * 1000)

    assert us(prefill.gaps) == (2, 20, 10)
    assert us(decode.gaps) == (2, 120, 115)
    assert us(other.gaps) == (0, 0, 0)
    assert us(found.between) == (2, 264, 259)
    assert found.busy_ms == pytest.approx(0.178) and found.span_ms == pytest.approx(0.582)


def test_another_process_and_another_thread_are_other_work(tmp_path: Path) -> None:
    export = exported_steps()
    export.kernel("foreign", 700, 710, called=20, thread=MAIN_THREAD)
    export.kernel("stranger", 710, 720, called=20, thread=(78 << 24) | 1)
    other = summary(export, tmp_path / "a.sqlite").phases[-1]
    assert {kernel.name for kernel in other.kernels} == {"foreign", "stranger"}


def test_equal_numbers_of_calls_in_two_processes_are_told_apart(tmp_path: Path) -> None:
    export = exported_steps()
    path = export.write(tmp_path / "a.sqlite")
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, "
            "correlationId, nameId, returnValue) SELECT 0, 1, 0, (78 << 24) | 1, correlationId, "
            "nameId, 0 FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        )
    assert summarize(read_export(path)) == summary(exported_steps(), tmp_path / "b.sqlite")


def test_a_graph_as_a_whole_is_a_kernel_of_its_name(tmp_path: Path) -> None:
    export = NsysExport()
    export.range("decode", 0, 10)
    export.graph(3, 5, 25, called=1)
    (decode,) = summary(export, tmp_path / "a.sqlite").phases
    assert [(k.kind, k.name, k.total_ms) for k in decode.kernels] == [
        ("graph", "CUDA graph 3", 0.02)
    ]  # fmt: skip


def test_without_calls_the_time_of_the_work_tells_its_phase(tmp_path: Path) -> None:
    export = NsysExport()
    export.range("prefill", 0, 100)
    export.kernel("inside", 10, 20, called=0)
    export.kernel("after", 110, 120, called=50)
    found = summary(export, tmp_path / "a.sqlite", leave_out=["CUPTI_ACTIVITY_KIND_RUNTIME"])
    assert not found.by_launch
    assert [(p.name, p.kernels[0].name) for p in found.phases] == [
        ("prefill", "inside"), ("other", "after")
    ]  # fmt: skip


def test_ranges_that_are_open_or_no_steps_count_for_nothing(tmp_path: Path) -> None:
    export = NsysExport()
    export.range("prefill", 0, None)
    export.range("decode", 0, 100, kind=34)  # a mark
    export.range("decoded", 0, 100)
    export.kernel("k", 10, 20, called=5)
    found = summary(export, tmp_path / "a.sqlite")
    assert [(phase.name, phase.steps) for phase in found.phases] == [("other", 0)]


works = st.lists(
    st.tuples(
        st.integers(0, 400), st.integers(0, 60), st.sampled_from(["prefill", "decode", "other"])
    ),
    min_size=1,
    max_size=25,
)


@given(works, st.integers(-1000, 1000))
@settings(max_examples=150)
def test_busy_time_and_gaps_are_those_of_every_nanosecond(
    spans: list[tuple[int, int, str]], moved: int
) -> None:
    work = sorted(
        (Work(s, s + n, "kernel", "k", p) for s, n, p in spans),
        key=lambda w: (w.start_ns, w.end_ns),
    )
    elsewhere = [replace(w, start_ns=w.start_ns + moved, end_ns=w.end_ns + moved) for w in work]
    found = summarize(Export(tuple(elsewhere), {}, True))
    busy = np.zeros(500, dtype=bool)
    for one in work:
        busy[one.start_ns : one.end_ns] = True
    first, last = work[0].start_ns, max(one.end_ns for one in work)
    gaps = [*(phase.gaps for phase in found.phases), found.between]
    assert found.busy_ms * 1e6 == pytest.approx(busy.sum())
    assert sum(gap.total_ms for gap in gaps) * 1e6 == pytest.approx((~busy[first:last]).sum())
    for phase in found.phases:
        own = np.zeros(500, dtype=bool)
        for one in work:
            own[one.start_ns : one.end_ns] |= one.phase == phase.name
        assert phase.busy_ms * 1e6 == pytest.approx(own.sum())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "no table StringIds"),
        (b"\0\xff" * 3000, "not an export"),
        (b"SQLite format 3\0" + b"\7" * 5000, "not an export"),
    ],
)
def test_what_is_no_export_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "a b?#.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_export(path)
    assert path.exists() == (content is not None)
    with pytest.raises(UsageError, match="no such file"):
        read_export(tmp_path)


def test_an_export_without_work_or_of_other_columns_says_so(tmp_path: Path) -> None:
    export = NsysExport()
    export.range("prefill", 0, 100)
    with pytest.raises(UsageError, match="no work of a GPU"):
        read_export(export.write(tmp_path / "a.sqlite"))
    path = exported_steps().write(tmp_path / "b.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME demangledName TO name")
    with pytest.raises(UsageError, match="KERNEL has no column demangledName"):
        read_export(path)


def test_values_of_no_sense_end_in_an_error_and_names_that_are_no_text_are_shown(
    tmp_path: Path,
) -> None:
    path = exported_steps().write(tmp_path / "a.sqlite")
    with sqlite3.connect(path) as database:
        database.execute(
            "UPDATE StringIds SET value = CAST(X'6bff6b' AS TEXT) WHERE value = 'vector'"
        )
    names = {k.name for p in summarize(read_export(path)).phases for k in p.kernels}
    assert "k\ufffdk" in names
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 'soon' WHERE start = 40000")
    with pytest.raises(UsageError, match="KERNEL"):
        read_export(path)
