"""How the check judges what it measured."""

from __future__ import annotations

import math
from typing import Any

import pytest
from gpu_check_results import PREFILL, entry, pair, steps

from gpu_check.targets import targets


def met_of(found: dict[str, Any]) -> dict[str, bool]:
    return {t.what: t.met for t in targets(found) if t.met is not None}


def test_nothing_is_met_where_nothing_was_measured() -> None:
    assert met_of({}) == {}
    assert {target.value for target in targets({})} == {"not measured"}


@pytest.mark.parametrize(("ratio", "aim", "floor"), [(2.0, True, True), (1.8, False, True),
                                                     (1.69, False, False)])  # fmt: skip
def test_an_aim_and_its_floor_are_judged_apart(ratio: float, aim: bool, floor: bool) -> None:
    found = met_of(steps(ratio))
    for where in ("", ", proxy"):
        assert found.pop(f"decode, 8b{where}: hooks on over off (aim)") is aim
        assert found.pop(f"decode, 8b{where}: hooks on over off (floor)") is floor
    assert found == {}


@pytest.mark.parametrize(("f16", "q8_0", "met"), [(91, 92, (True, True)), (91, 90, (True, False)),
                                                  (89, 89, (False, True))])  # fmt: skip
def test_depth_may_cost_a_tenth_and_no_more_with_quantized_kv(
    f16: float, q8_0: float, met: tuple[bool, bool]
) -> None:
    found = met_of(
        {
            name: entry(*pair(100, 3, depth=0), *pair(deep, 3, depth=8048))
            for name, deep in (("decode.8b", f16), ("quantized.8b", q8_0))
        }
    )
    assert found["decode, 8b: lost at depth 8192"] is met[0]
    assert found["the same with q8_0 KV"] is met[1]


def test_batches_have_limits_of_their_own_on_the_proxy() -> None:
    four = entry(*pair(9, 1.7, streams=4), *pair(9, 1.3, streams=16))
    found = met_of({"batches.8b": four, "proxy.batches.8b": four})
    assert found == {
        "4 streams, 8b: over llama.cpp's batches": True,
        "16 streams, 8b: over llama.cpp's batches": True,
        "4 streams, 8b, proxy: over llama.cpp's batches": False,
        "16 streams, 8b, proxy: over llama.cpp's batches": True,
    }


def test_no_prefill_anywhere_may_be_slower_than_without_hooks() -> None:
    good = entry(*pair(9, 1.9, PREFILL, prompt_tokens=2048))
    found = met_of({"proxy.prefill.8b": good})
    assert set(found.values()) == {True} and len(found) == 3
    found = met_of({"proxy.prefill.8b": good, "chunks.1b": entry(*pair(9, 0.99, PREFILL))})
    assert found["prefill, the least anywhere"] is False


def timed(us: float) -> dict[str, Any]:
    timings = [
        {"kind": "vector", "name": "8b down", "type": "q4_K", "large": True, "tokens": 1,
         "bytes": 10**6, "us": [us]},
        {"kind": "attention", "name": "8b d8192", "type": "f16", "depth": 8192, "tokens": 1,
         "bytes": 10**6, "us": [us]},
    ]  # fmt: skip
    device = {"clock_khz": 1_000_000, "multiprocessors": 10}
    return {"status": "done", "result": {"timings": timings, "device": device}}


@pytest.mark.parametrize(
    ("us", "met"),
    [(6, (True, True, True)), (8, (True, False, True)), (11, (False, False, False))],
)
def test_kernels_are_judged_by_bandwidth_and_by_bytes_a_clock(
    us: float, met: tuple[bool, bool, bool]
) -> None:
    copies = {"status": "done", "result": {"copy_gb_s": 150}}
    found = {"bandwidth": copies, "kernel_times": timed(us), "proxy.kernel_times": timed(us)}
    assert met_of(found) == {
        "8b down: of the bandwidth of copies": met[0],
        "8b down, proxy: by multiprocessor": met[1],
        "8b d8192, proxy: by multiprocessor": met[2],
    }


@pytest.mark.parametrize(
    ("ratio", "apart", "chance", "met"),
    [(1.1, 0.001, 0, (True, True)), (1.11, -0.0011, 0, (False, False)),
     (1.1, -0.0019, 0.0005, (True, None)), (1.2, 0.0021, 0.0005, (False, False))],
)  # fmt: skip
def test_errors_and_perplexity_are_held_to_stock(
    ratio: float, apart: float, chance: float, met: tuple[bool, bool | None]
) -> None:
    errors = [{"name": "a", "ratio": 0.5}, {"name": "q4_K", "ratio": ratio}]
    perplexities = {"model": "m", "difference": apart, "deviation": chance}
    found = {
        "errors": {"status": "done", "result": {"errors": errors}},
        "perplexity": {"status": "done", "result": perplexities},
    }
    told = met_of(found)  # what is not known is not there
    assert told["error against float64 over stock's, the most (q4_K)"] == met[0]
    assert told.get("perplexity, hooks on and off: apart") == met[1]


@pytest.mark.parametrize(
    ("status", "ratios", "met"),
    [("done", [1.0, math.nan], False), ("done", [math.nan, 1.0], False),
     ("done", [1.0, math.inf], False), ("failed", [1.0, 1.05], None), ("failed", [1.2], False)],
)  # fmt: skip
def test_errors_that_are_no_numbers_and_products_that_failed_are_not_met(
    status: str, ratios: list[float], met: bool | None
) -> None:
    errors = [{"name": "q4_K", "ratio": ratio} for ratio in ratios]
    found = {"errors": {"status": status, "result": {"errors": errors}}}
    what = "error against float64 over stock's, the most (q4_K)"
    assert [target.met for target in targets(found) if target.what == what] == [met]


def growth_steps(growth: float, deviation: float, idle: float, back: float) -> dict[str, Any]:
    return {
        "growth.1b": {"status": "done", "result": {"growth": growth, "deviation": deviation}},
        "trace.1b": {
            "status": "done", "result": {"idle_us": idle, "to_host_bytes_per_token": back}
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "met"), [((0.05, 0.03, 20, 16), True), ((0.051, 0.031, 20.1, 17), False)]
)
def test_limits_are_those_that_are_asked_for(values: tuple[float, ...], met: bool) -> None:
    measured = [target for target in targets(growth_steps(*values)) if target.met is not None]
    assert len(measured) == 4
    assert all(target.met is met for target in measured)
