"""The tables of a tuning report, out of what a search has left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from orin_llm.bench.tables import table
from orin_llm.tune.knobs import Candidate, Knob, Value
from orin_llm.tune.measurement import Measurement
from orin_llm.tune.outcome import Outcome, Standing, Trial

if TYPE_CHECKING:
    from orin_llm.tune.page_kernels import PageKernels

NOT_MEASURED = "–"
MOST_ROWS = 100  # of a table; the study has every trial
CHUNK, PAGE = "chunk_size", "page_size"

Cell = Callable[[Measurement], float | None]


def standings(outcome: Outcome) -> list[Standing]:
    """All candidates that were measured, the best first, the default once."""
    found = [outcome.best, outcome.default, *outcome.runners_up]
    unique = {standing.candidate: standing for standing in found if standing is not None}
    return list(unique.values())


def cut(outcome: Outcome, knob: str) -> list[Standing]:
    """For each value of a knob that was measured one candidate, in the order of the values: that
    which is otherwise most like the best."""
    if outcome.best is None:
        return []
    best = outcome.best.candidate
    found: dict[Value, Standing] = {}
    for standing in standings(outcome):
        value = standing.candidate.get(knob)
        if value is None:
            continue
        key = _closeness(standing, best, knob)
        if value not in found or key < _closeness(found[value], best, knob):
            found[value] = standing
    return [found[value] for value in outcome.space.knob(knob).values if value in found]


def _closeness(standing: Standing, best: Candidate, knob: str) -> tuple[int, int]:
    return len(_others(standing.candidate, best, knob)), -len(standing.measurement.samples)


def _others(candidate: Candidate, best: Candidate, knob: str) -> list[str]:
    """Knobs besides this one that are not as in the best candidate."""
    return [name for name in candidate if name != knob and candidate[name] != best.get(name)]


def chunk_table(outcome: Outcome) -> str:
    """TTFT by chunk size and prompt length, and what the device did in prefill; "" without any."""
    rows = cut(outcome, CHUNK) if has_knob(outcome, CHUNK) else []
    lengths = sorted({length for s in rows for length in s.measurement.ttft_ms})
    heads = ["chunk size", *(f"TTFT ms, {length} tokens" for length in lengths)]
    heads += ["GPU %", "EMC %", "GB/s", "runs", "otherwise"]
    return table(
        *heads,
        rows=[
            [
                str(s.candidate[CHUNK]),
                *(number(s.measurement.ttft_ms.get(length)) for length in lengths),
                number(s.measurement.prefill.gpu_percent, 0),
                number(s.measurement.prefill.emc_percent, 0),
                number(s.measurement.prefill.bandwidth_gb_s),
                str(len(s.measurement.samples)),
                _otherwise(outcome, s, CHUNK),
            ]
            for s in rows
        ],
    )


def page_table(outcome: Outcome, kernels: Mapping[int, PageKernels]) -> str:
    """What each page size costs: reading pages, writing them, and room that no token has.

    Args:
        kernels: times of the kernels alone, by page size, where they were taken.
    """
    rows = cut(outcome, PAGE) if has_knob(outcome, PAGE) else []
    return table(
        "page size", "attention µs", "write µs", "decode step ms", "prefill ms/token", "waste %",
        "TPOT ms", "runs", "otherwise",
        rows=[
            [
                str(s.candidate[PAGE]),
                *_kernel_cells(kernels.get(int(s.candidate[PAGE]))),
                number(s.measurement.pages.decode_compute_ms, 3),
                number(s.measurement.pages.prefill_compute_ms, 3),
                number(_percent(s.measurement.pages.waste)),
                number(s.measurement.tpot_ms),
                str(len(s.measurement.samples)),
                _otherwise(outcome, s, PAGE),
            ]
            for s in rows
        ],
    )  # fmt: skip


def _kernel_cells(times: PageKernels | None) -> list[str]:
    found = (None, None) if times is None else (times.attention_us, times.write_us)
    return [number(value, 3) for value in found]


def _otherwise(outcome: Outcome, standing: Standing, knob: str) -> str:
    """What else is not as in the best candidate."""
    assert outcome.best is not None
    names = _others(standing.candidate, outcome.best.candidate, knob)
    return ", ".join(f"{name} {written(standing.candidate[name])}" for name in names)


def result_table(outcome: Outcome) -> str:
    """The figures of the default beside those of the best."""
    return table("", "default", "best", "best / default", rows=result_rows(outcome))


def result_rows(outcome: Outcome) -> list[list[str]]:
    """Each figure by name: of the default, of the best, and their ratio; none without both."""
    if outcome.best is None or outcome.default is None:
        return []
    best, default = outcome.best.measurement, outcome.default.measurement
    rows = []
    for name, digits, cell in figures_of([best, default]):
        ours, theirs = cell(best), cell(default)
        part = ours / theirs if ours is not None and theirs else None
        rows.append([name, number(theirs, digits), number(ours, digits), number(part, 3)])
    return rows


def figures_of(measurements: Sequence[Measurement]) -> list[tuple[str, int, Cell]]:
    """Name, digits and reader of every figure that one of the measurements has."""
    lengths = sorted({length for m in measurements for length in m.ttft_ms})
    cells: list[tuple[str, int, Cell]] = [
        (f"TTFT ms, {length} tokens", 1, lambda m, n=length: m.ttft_ms.get(n))  # type: ignore[misc]
        for length in lengths
    ]
    cells += [
        ("TPOT ms", 2, lambda m: m.tpot_ms),
        ("tokens/s, many streams", 1, lambda m: m.tokens_per_s),
        ("TPOT ms, many streams", 2, lambda m: m.concurrent_tpot_ms),
        ("J/token", 3, lambda m: m.joules_per_token),
        ("power W", 1, lambda m: m.power_w),
        ("prefill GPU %", 0, lambda m: m.prefill.gpu_percent),
        ("prefill EMC %", 0, lambda m: m.prefill.emc_percent),
        ("prefill GB/s", 1, lambda m: m.prefill.bandwidth_gb_s),
        ("decode GPU %", 0, lambda m: m.decode.gpu_percent),
        ("decode EMC %", 0, lambda m: m.decode.emc_percent),
        ("decode EMC MHz", 0, lambda m: m.decode.emc_mhz),
        ("decode GB/s", 1, lambda m: m.decode.bandwidth_gb_s),
        ("hottest °C", 1, lambda m: m.hottest_c),
    ]
    return [c for c in cells if any(c[2](m) is not None for m in measurements)]


def knob_table(outcome: Outcome) -> str:
    """Every knob: what was tried, the default and the choice."""
    best = outcome.best.candidate if outcome.best else outcome.space.default
    return table(
        "setting", "tried", "default", "chosen",
        rows=[
            [
                knob.name,
                values_text(knob),
                written(knob.default),
                written(best[knob.name]),
            ]
            for knob in outcome.space.knobs
        ],
    )  # fmt: skip


def values_text(knob: Knob) -> str:
    """The values that are tried."""
    texts = [written(value) for value in knob.values]
    return ("; " if any("," in text for text in texts) else ", ").join(texts)


def written(value: Value) -> str:
    """A value for people."""
    return "as by default" if value == "" else str(value)


def candidate_table(outcome: Outcome) -> str:
    """Everything that was measured, the best first."""
    return table(
        "settings", "cost", "95 %", "runs", "bounds that do not hold",
        rows=[
            [
                s.candidate.text,
                number(s.cost.value if s.cost else None, 3),
                _interval(s),
                str(len(s.measurement.samples)),
                "; ".join(s.violations),
            ]
            for s in standings(outcome)[:MOST_ROWS]
        ],
    )  # fmt: skip


def _interval(standing: Standing) -> str:
    cost = standing.cost
    if cost is None or cost.low is None or cost.high is None:
        return NOT_MEASURED
    return f"{cost.low:.3f} … {cost.high:.3f}"


def passed_over(trials: Sequence[Trial]) -> list[tuple[str, int]]:
    """Why candidates were not measured, or not for good; and how many, the most first."""
    reasons = Counter(f"{t.state}: {t.note}" for t in trials if t.state != "measured")
    return reasons.most_common(MOST_ROWS)


def has_knob(outcome: Outcome, name: str) -> bool:
    """Whether it was tuned, or at least measured at one value."""
    return any(knob.name == name for knob in outcome.space.knobs)


def number(value: float | None, digits: int = 1) -> str:
    """What was not measured is a dash, never 0."""
    return NOT_MEASURED if value is None else f"{value:.{digits}f}"


def _percent(part: float | None) -> float | None:
    return None if part is None else 100 * part
