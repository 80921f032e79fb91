"""A campaign against an earlier one: the same workloads, how much faster, and what else differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orin_llm.bench.flat import flatten
from orin_llm.bench.ratios import Ratio, unpaired
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.bench.result import Earlier, Report, Result

# Which program it was is what is compared; all other differences are of the conditions.
_PROGRAM = ("version", "commit", "llama_cpp", "upstream_commit")
_NEVER_THE_SAME = ("measured_at", "at_start.")  # of the temperatures the highest is compared
_CLOCKS = ("emc_mhz_spread", "gpu_mhz_spread")
_SAME_CLOCK = 0.03  # a clock under load moves by as much from reading to reading
_SAME_WARMTH_C = 5.0


@dataclass(frozen=True)
class Difference:
    """Something that was not the same; None: not told."""

    name: str
    before: object
    now: object

    @property
    def text(self) -> str:
        """`power_mode 30W → MAXN`."""
        name = self.name.removeprefix("stamp.")
        return f"{name} {_said(self.before)} → {_said(self.now)}"


@dataclass(frozen=True)
class Change:
    """One figure, before and now.

    Attributes:
        before, now: medians of the repetitions.
        ratio: of rates and amounts now over before, of times before over now: above 1 is faster.
    """

    figure: str
    before: float
    now: float
    ratio: Ratio

    @property
    def verdict(self) -> str:
        """`faster`, `slower` (of amounts: `more`, `less`), `not significant` or `not told`."""
        if self.ratio.significant is None:
            return "not told"
        if not self.ratio.significant:
            return "not significant"
        up, down = ("faster", "slower") if _is_speed(self.figure) else ("more", "less")
        return up if self.ratio.mean > 1 else down


@dataclass(frozen=True)
class Pair:
    """A result and the earlier one of the same workload.

    Attributes:
        engine, engine_before: names of the contenders.
        changes: of all figures that both have and that are above zero.
        differences: between the two engines' settings, and between clocks under load.
    """

    label: str
    engine: str
    engine_before: str
    changes: tuple[Change, ...]
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Versus:
    """A report against an earlier one.

    Attributes:
        path: of the earlier one.
        program: what differs between the programs.
        conditions: what differs between machines, their settings, and models.
        only_before, only_now: results without a partner.
    """

    path: str
    program: tuple[Difference, ...]
    conditions: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...]
    only_now: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it, with the verdicts."""
        data = asdict(self)
        for pair, told in zip(self.pairs, data["pairs"], strict=True):
            for change, its in zip(pair.changes, told["changes"], strict=True):
                its["verdict"] = change.verdict
        return data


def require_common(earlier: Earlier, workloads: Sequence[Mapping[str, object]]) -> None:
    """UsageError where an earlier report has none of the workloads that are to be run."""
    before = earlier.report
    known = {_key(result.workload) for result in before.results}
    if not known & {_key(workload) for workload in workloads}:
        labels = ", ".join(dict.fromkeys(result.label for result in before.results))
        raise UsageError(
            f"--vs {earlier.path}: it has none of these workloads, so there is nothing to compare; "
            f"it has {labels}"
        )


def versus(earlier: Earlier, now: Report[Any]) -> Versus:
    """Set the results of a report against earlier ones.

    Results of the same workload make a pair: where there are several, those whose engines have the
    same values in the settings that vary among them.
    """
    before = earlier.report
    differences = list(_differences(before.environment, now.environment))
    pairs = list(_pairs(before.results, now.results))
    paired = {id(result) for pair in pairs for result in pair}
    return Versus(
        path=str(earlier.path),
        program=tuple(d for d in differences if d.name in _PROGRAM),
        conditions=(
            *(d for d in differences if not d.name.startswith((*_PROGRAM, *_NEVER_THE_SAME))),
            *_warmth(before.environment, now.environment),
        ),
        pairs=tuple(_pair(old, new) for old, new in pairs),
        only_before=tuple(_name(r) for r in before.results if id(r) not in paired),
        only_now=tuple(_name(r) for r in now.results if id(r) not in paired),
    )


def _pairs(before: Sequence[Any], now: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Results of one workload: the only two, or those whose engines agree in all that varies."""
    for workload in dict.fromkeys(_key(result.workload) for result in now):
        old = [result for result in before if _key(result.workload) == workload]
        new = [result for result in now if _key(result.workload) == workload]
        if len(old) == len(new) == 1:
            yield old[0], new[0]
            continue
        varied = _varied(old) | _varied(new)
        by_settings = {_key({name: r.engine.get(name) for name in varied}): r for r in old}
        for result in new:
            found = by_settings.get(_key({n: result.engine.get(n) for n in varied}))
            if found is not None:
                yield found, result


def _varied(results: Sequence[Any]) -> set[str]:
    names = {name for result in results for name in result.engine}
    return {name for name in names if len({_key(r.engine.get(name)) for r in results}) > 1}


def _pair(before: Result, now: Result) -> Pair:
    settings = _differences(before.engine, now.engine)
    return Pair(
        label=now.label,
        engine=str(now.engine["name"]),
        engine_before=str(before.engine["name"]),
        changes=tuple(_changes(before, now)),
        differences=(*settings, *_clock_differences(before, now)),
    )


def _changes(before: Result, now: Result) -> Iterator[Change]:
    for figure in now.figures:
        if figure not in before.figures:
            continue
        old, new = _values(before, figure), _values(now, figure)
        if min(*old, *new) <= 0:
            continue
        ratio = unpaired(old, new) if figure.endswith("_ms") else unpaired(new, old)
        if ratio is not None:
            medians = before.figures[figure].median, now.figures[figure].median
            yield Change(figure, *medians, ratio)


def _values(result: Result, figure: str) -> list[float]:
    """Of each repetition; of reports that do not tell them, the median alone."""
    repeated = getattr(result, "repeated", {}).get(figure, ())
    known = [float(value) for value in repeated if value is not None]
    return known or [float(result.figures[figure].median)]


def _clock_differences(before: Any, now: Any) -> Iterator[Difference]:
    """Clocks that the device was seen to have in one of the two only."""
    old, new = getattr(before, "device", None), getattr(now, "device", None)
    if old is None or new is None:
        return
    for name in _CLOCKS:
        was, has = getattr(old, name), getattr(new, name)
        if was is None or has is None:
            continue
        if abs(max(was) / max(has) - 1) > _SAME_CLOCK if max(has) else max(was) != max(has):
            yield Difference(name.removesuffix("_spread") + " under load", max(was), max(has))
    if old.throttled != new.throttled:
        yield Difference("throttled", old.throttled, new.throttled)


def _warmth(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    """A machine that was warmer when it began throttles sooner."""
    old, new = (dict(flatten(report)).get("at_start.hottest_c") for report in (before, now))
    if (
        isinstance(old, (int, float))
        and isinstance(new, (int, float))
        and abs(old - new) > _SAME_WARMTH_C
    ):
        yield Difference("hottest at start, °C", old, new)


def _differences(before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Difference]:
    """Leaves that are not the same; members that older versions did not write are none."""
    old, new = dict(flatten(before)), dict(flatten(now))
    for name in new:
        if name in old and old[name] != new[name]:
            yield Difference(name, old[name], new[name])


def _name(result: Any) -> str:
    return f"{result.label}, {result.engine['name']}"


def _key(data: object) -> str:
    return json.dumps(data, sort_keys=True, default=str)


def _is_speed(figure: str) -> bool:
    return figure.endswith(("_per_s", "_ms"))


def _said(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "nothing"
    return "not told" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
