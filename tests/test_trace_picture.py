"""The picture of a run: which panels there are, and what their lines are at which time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from bench_support import request, run_of, step

from orin_llm.bench.records import Run
from orin_llm.device.reading import Reading
from orin_llm.plots.charts import save_png
from orin_llm.trace.picture import picture

MIB = 1 << 20


def drawn(run: Run) -> dict[str, Any]:
    return {axes.get_ylabel(): axes for axes in picture(run, "a model: a run").axes}


def value_at(axes: Any, line: int, x: float) -> float:
    return float(np.interp(x, *axes.lines[line].get_data()))


def test_memory_goes_from_what_was_before_a_step_to_what_is_after_it() -> None:
    steps = [step(1, 1000, 500, prompt=8, decode=0), step(2, 1500, 100)]  # n MiB, committed 2 n
    axes = drawn(run_of(request([1500.0, 1600.0], submitted_ms=1000.0), steps=steps))
    used = [value_at(axes["KV cache, MiB"], 0, x) for x in (0, 0.25, 0.5, 0.6)]
    committed = [value_at(axes["KV cache, MiB"], 1, x) for x in (0, 0.5, 0.6)]
    assert np.allclose(used, [0, 0.5, 1, 2]) and np.allclose(committed, [2, 2, 4])
    assert list(axes) == ["KV cache, MiB", "tokens in a step"]


def test_a_step_has_its_tokens_while_it_lasts_and_a_pause_has_none() -> None:
    steps = [step(1, 0, 100, prompt=8, decode=0), step(2, 100, 100), step(3, 900, 100)]
    axes = drawn(run_of(request([1000.0]), steps=steps))["tokens in a step"]
    prompt = [value_at(axes, 0, x) for x in (0.05, 0.15, 0.5, 0.95)]
    decode = [value_at(axes, 1, x) for x in (0.05, 0.15, 0.5, 0.95)]
    assert prompt == [8, 0, 0, 0] and decode == [0, 1, 0, 1]


def test_only_sensors_that_were_read_have_a_panel() -> None:
    readings = (
        Reading(0.0, ram_used_bytes=5 * MIB, emc_percent=10.0, gpu_percent=50.0),
        Reading(100.0, ram_used_bytes=7 * MIB, gpu_percent=60.0),
    )
    run = Run((request([90.0]),), (step(1, 0, 90, prompt=3),), None, readings)
    axes = drawn(run)
    assert list(axes)[2:] == ["used memory, MiB", "load, %"]
    assert value_at(axes["used memory, MiB"], 0, 0.05) == 6
    assert [line.get_label() for line in axes["load, %"].lines] == ["GPU", "EMC"]


def test_a_run_without_pages_or_requests_is_drawn_too() -> None:
    stock = step(1, 5000, 90, prompt=3)
    unpaged = type(stock)(**{**stock.__dict__, "kv_bytes_committed": 0})
    assert list(drawn(run_of(steps=[unpaged]))) == ["tokens in a step"]
    assert list(drawn(run_of())) == ["tokens in a step"]


def test_a_title_that_is_no_text_is_drawn_all_the_same(tmp_path: Path) -> None:
    name = b"a\xff\x1b[31m".decode("utf-8", "surrogateescape")
    save_png(picture(run_of(steps=[step(1, 0, 9)]), name), tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
