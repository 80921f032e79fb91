"""Between runs and among them: cooling down, and repetitions that lie apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from bench_support import ENVIRONMENT, request, run_of
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.bench.cool_down import CoolDown
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.outliers import outliers
from orin_llm.bench.report import FORMATS
from orin_llm.bench.result import Conditions, Report
from orin_llm.bench.streams import Streams
from orin_llm.bench.turns import CutShort, alternate


class Clock:
    """Time that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def cooling(
    temperatures: Sequence[float | None], limit_s: float = 60
) -> tuple[CoolDown, Clock, list[str]]:
    clock, said = Clock(), list[str]()
    values: Iterator[float | None] = iter(temperatures)
    cool = CoolDown(lambda: next(values), limit_s, said.append, clock=clock, sleep=clock.sleep)
    return cool, clock, said


def test_a_run_waits_until_the_machine_is_within_2_degrees_of_where_it_was() -> None:
    cool, clock, said = cooling([50.0, 60.0, 55.0, 52.1, 52.0])
    cool()
    assert clock.now == 0
    cool()
    assert clock.now == 3
    assert said == ["cooling down: 60.0 °C, 52.0 °C wanted"]


def test_a_run_waits_no_longer_than_it_may_and_says_so() -> None:
    cool, clock, said = cooling([50.0, *[60.0] * 99], limit_s=5)
    cool()
    cool()
    assert clock.now == 5 and said[-1] == "still 60.0 °C after 5 s: going on"
    cool()
    assert clock.now == 10


def test_nothing_waits_for_a_temperature_that_is_not_read() -> None:
    cool, clock, said = cooling([None, None, 50.0, 60.0, None])
    for _ in range(4):
        cool()
    assert clock.now == 1 and said == ["cooling down: 60.0 °C, 52.0 °C wanted"]


class Named:
    """A contender that notes when it runs."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.settings: dict[str, object] = {"name": name}
        self._log = log

    def run(self, work: str) -> str:
        self._log.append(str(self.settings["name"]))
        return work


def test_every_run_is_preceded_by_its_wait() -> None:
    log: list[str] = []
    alternate(
        [Named("a", log), Named("b", log)], "w", 1, 1, lambda text: None, lambda: log.append("-")
    )
    assert log == ["-", "a", "-", "b", "-", "b", "-", "a"]


class Impatient(Named):
    """Ctrl-C comes in its third run."""

    def run(self, work: str) -> str:
        if self._log.count(str(self.settings["name"])) == 2:
            raise KeyboardInterrupt
        return super().run(work)


def test_ctrl_c_leaves_as_many_records_of_each_contender_as_all_have() -> None:
    log: list[str] = []
    with pytest.raises(CutShort) as cut:
        alternate([Named("a", log), Impatient("b", log)], "w", 0, 9, lambda text: None)
    assert log == ["a", "b", "b", "a", "a"]
    assert cut.value.records == [["w"] * 2] * 2


def test_ctrl_c_before_all_have_a_record_leaves_nothing() -> None:
    log: list[str] = []
    with pytest.raises(KeyboardInterrupt) as stopped:
        alternate([Named("a", log), Impatient("b", log)], "w", 2, 9, lambda text: None)
    assert not isinstance(stopped.value, CutShort)


def test_a_value_far_from_the_others_is_told_with_its_repetition() -> None:
    assert outliers({"a": [10.0, 10.1, 9.9, 20.0, 10.0], "b": [1.0] * 5}) == {"a": (4,)}


def test_of_few_values_none_is_an_outlier() -> None:
    assert outliers({"a": [1.0, 1.0, 1.0, 9.0]}) == {}
    assert outliers({"a": [1.0, None, 1.0, 9.0, 1.0]}) == {}


def test_a_repetition_without_the_figure_keeps_its_number() -> None:
    assert outliers({"a": [None, 1.0, 1.0, 1.01, 1.0, 9.0]}) == {"a": (6,)}


def test_values_that_differ_by_less_than_2_percent_are_no_outliers() -> None:
    assert outliers({"a": [100.0, 100.0, 100.0, 100.0, 101.9]}) == {}
    assert outliers({"a": [100.0, 100.0, 100.0, 100.0, 102.1]}) == {"a": (5,)}


@given(st.lists(st.floats(0.1, 1e6), min_size=5, max_size=30))
def test_outliers_are_those_of_the_modified_z_score(values: list[float]) -> None:
    found = outliers({"a": values}).get("a", ())
    median = np.median(values)
    mad = np.median(np.abs(np.array(values) - median))
    for n, value in enumerate(values, 1):
        distance = abs(value - median)
        score = distance / (1.4826 * mad) if mad else np.inf * distance if distance else 0
        if n in found:
            assert score > 3.5 * (1 - 1e-9) and distance > 0.02 * median * (1 - 1e-9)
        else:
            assert score <= 3.5 * (1 + 1e-9) or distance <= 0.02 * median * (1 + 1e-9)
    assert len(found) <= len(values) // 2


def test_outliers_are_in_every_format_and_stay_in_the_figures() -> None:
    runs = [run_of(request([ms, 2 * ms])) for ms in (100.0, 101.0, 99.0, 300.0, 100.0)]
    conditions = Conditions(Streams(1, Lengths(10, 10), Lengths(2, 2)), 512, 1, 0)
    found = conditions.result({"name": "e"}, runs, runs)
    assert found.outliers["ttft_ms"] == (4,) and found.figures["ttft_ms"].max == 300
    report = Report(ENVIRONMENT, (found,))
    line = "- single p10 n2, e, run 4: "
    assert line in FORMATS["md"](report) and "ttft_ms 300.0 (median 100.0)" in FORMATS["md"](report)
    (in_json,) = json.loads(FORMATS["json"](report))["results"]
    assert in_json["outliers"]["ttft_ms"] == [4]
    assert "outliers.ttft_ms" in FORMATS["csv"](report)


def test_without_outliers_nothing_is_said_of_them() -> None:
    runs = [run_of(request([100.0, 200.0]))] * 5
    conditions = Conditions(Streams(1, Lengths(10, 10), Lengths(2, 2)), 512, 1, 0)
    report = Report(ENVIRONMENT, (conditions.result({"name": "e"}, runs, runs),))
    assert "Outliers" not in FORMATS["md"](report)
