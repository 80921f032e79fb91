"""Against an earlier report: what is compared with what, how sure it is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from bench_reports import BEFORE, FAST, SLOW, report, result, set_against, versus
from bench_support import UNSTAMPED

from orin_llm.bench.device_use import DeviceUse, PhaseUse
from orin_llm.bench.ratios import unpaired
from orin_llm.bench.report import FORMATS
from orin_llm.bench.result import Earlier
from orin_llm.bench.versus import Difference, require_common
from orin_llm.device.phases import activity
from orin_llm.errors import UsageError


def test_twice_as_fast_is_told_of_rates_and_of_times_as_two() -> None:
    (pair,) = versus(report(SLOW), report(FAST)).pairs
    changes = {change.figure: change for change in pair.changes}
    for name in ("prefill_tokens_per_s", "decode_tokens_per_s", "ttft_ms", "tpot_ms"):
        assert changes[name].ratio.mean == pytest.approx(2, rel=1e-3)
        assert changes[name].verdict == "faster"
    assert (changes["ttft_ms"].before, changes["ttft_ms"].now) == (1000, 500)
    (back,) = versus(report(FAST), report(SLOW)).pairs
    assert {change.verdict for change in back.changes} == {"slower"}


def test_the_interval_is_that_of_the_repetitions() -> None:
    (pair,) = versus(report(SLOW), report(FAST)).pairs
    found = {change.figure: change.ratio for change in pair.changes}["tpot_ms"]
    wanted = unpaired([20.0, 20.2, 19.8], [10.0, 10.1, 9.9])
    assert wanted is not None and found.low is not None and 1.9 < found.low < found.mean
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_a_difference_within_what_varies_is_none() -> None:
    noisy = result([1.0, 1.4, 0.8]), result([1.1, 0.9, 1.3])
    (pair,) = versus(report(noisy[0]), report(noisy[1])).pairs
    assert {change.verdict for change in pair.changes} == {"not significant"}


def test_of_one_repetition_nothing_is_sure() -> None:
    (pair,) = versus(report(result([2.0])), report(result([1.0]))).pairs
    assert {change.verdict for change in pair.changes} == {"not told"}
    assert {change.ratio.low for change in pair.changes} == {None}


def test_whole_numbers_beyond_those_of_arrays_are_compared_as_any_others() -> None:
    huge = dict.fromkeys(SLOW.repeated, (1 << 70, 1 << 70, 1 << 70))
    (pair,) = versus(report(replace(SLOW, repeated=huge)), report(FAST)).pairs
    (change, *_) = [change for change in pair.changes if change.figure == "tpot_ms"]
    assert change.ratio.mean == pytest.approx((1 << 70) / 10, rel=1e-2)


def test_figures_without_a_direction_are_more_or_less() -> None:
    one, other = (
        replace(r, figures={"others_over_first": r.figures["ttft_ms"]},
                repeated={"others_over_first": r.repeated["ttft_ms"]})
        for r in (FAST, SLOW)
    )  # fmt: skip
    (pair,) = versus(report(one), report(other)).pairs
    assert [(c.verdict, round(c.ratio.mean, 2)) for c in pair.changes] == [("more", 2.0)]


def test_results_are_compared_within_their_workload() -> None:
    before = report(SLOW, result([1.0], prompt=200))
    now = report(result([1.0], prompt=400), FAST)
    found = versus(before, now)
    assert [pair.label for pair in found.pairs] == ["single p100 n3"]
    assert found.only_before == ("single p200 n3, orin-llm all",)
    assert found.only_now == ("single p400 n3, orin-llm all",)


def test_of_several_engines_those_with_the_same_settings_are_compared() -> None:
    before = report(*(result([1.0], chunk_size=c, threads=1) for c in (256, 512)))
    now = report(*(result([1.0], chunk_size=c, threads=2) for c in (512, 256, 1024)))
    found = versus(before, now)
    assert len(found.pairs) == 2 and len(found.only_now) == 1 and not found.only_before
    for pair in found.pairs:  # what varies among them is the same, what does not is told
        assert pair.differences == (Difference("threads", 1, 2),)


def test_the_only_two_of_a_workload_are_compared_whatever_their_engines_are() -> None:
    found = versus(report(SLOW), report(result([1.0], name="stock", chunk_size=64)))
    assert [d.text for d in found.pairs[0].differences] == [
        "name orin-llm all → stock",
        "chunk_size 512 → 64",
    ]


def test_programs_are_told_apart_from_conditions() -> None:
    machine = {**UNSTAMPED["machine"], "power_mode": None}
    before = report(SLOW, commit="old", machine=machine)
    now = report(FAST, commit="new", machine={**machine, "power_mode": "30W", "more": 1})
    found = versus(before, now)
    assert [d.text for d in found.program] == ["commit old → new"]
    assert [d.text for d in found.conditions] == ["machine.power_mode not told → 30W"]


def test_a_machine_that_was_warmer_and_clocks_that_were_others_are_told() -> None:
    def warm(hottest: float | None, emc: tuple[float, float], throttled: tuple[str, ...]) -> Any:
        made = report(SLOW, measured_at=str(hottest), at_start={"hottest_c": hottest})
        nothing = PhaseUse(activity([], [], 1000), 0)
        device = DeviceUse(nothing, nothing, nothing, throttled=throttled, emc_mhz_spread=emc)
        return replace(made, results=(replace(SLOW, device=device),))

    cool, hot = warm(40.0, (204, 3199), ()), warm(61.5, (204, 2133), ("gpu",))
    found = versus(cool, hot)
    assert [d.text for d in found.conditions] == ["hottest at start, °C 40 → 61.5"]
    assert [d.text for d in found.pairs[0].differences] == [
        "emc_mhz under load 3199 → 2133",
        "throttled nothing → gpu",
    ]
    alike = versus(cool, warm(42.0, (2133, 3180), ()))
    assert alike.conditions == alike.pairs[0].differences == ()
    assert versus(cool, warm(None, (204, 3199), ())).conditions == ()


def test_markdown_says_loudly_what_was_not_the_same() -> None:
    before = report(SLOW, machine={**UNSTAMPED["machine"], "cores": 8})
    now = report(replace(FAST, engine={**FAST.engine, "threads": 1}))
    text = FORMATS["md"](set_against(before, now))
    assert "**Not measured under the same conditions**: machine.cores 8 → 2" in text
    assert "**Not measured with the same settings**: single p100 n3: threads 2 → 1" in text
    row = next(line for line in text.splitlines() if "TTFT ms" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")][2:6] == [
        "TTFT ms", "1000", "500.0", "2.000",
    ]  # fmt: skip
    assert row.rstrip(" |").endswith("faster")
    same = FORMATS["md"](set_against(now, now))
    assert "Not measured" not in same and "program:" not in same


def test_the_same_difference_of_all_workloads_is_told_once() -> None:
    results = result([1.0]), result([1.0], prompt=200)
    before = report(*results)
    now = report(*(replace(r, engine={**r.engine, "threads": 1}) for r in results))
    text = FORMATS["md"](set_against(before, now))
    assert text.count("Not measured with") == 1 and "settings**: all workloads: threads" in text


def test_json_has_the_comparison_with_its_verdicts() -> None:
    now = report(FAST)
    found = json.loads(FORMATS["json"](set_against(report(SLOW), now)))
    (pair,) = found["versus"]["pairs"]
    assert {change["verdict"] for change in pair["changes"]} == {"faster"}
    assert found["versus"]["path"] == "before.json"


def test_a_workload_that_the_earlier_report_has_not_is_refused_before_it_is_run() -> None:
    earlier = Earlier(BEFORE, report(SLOW))
    require_common(earlier, [SLOW.workload, {"workload": "other"}])
    with pytest.raises(UsageError, match="it has single p100 n3"):
        require_common(earlier, [{"workload": "other"}])
