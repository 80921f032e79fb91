"""Pictures of the gaps between tokens: a histogram for each workload, its engines together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orin_llm.bench.histogram import Histogram
from orin_llm.bench.picture import MOST_OF_A_KIND, Picture, left_out
from orin_llm.bench.result import Result
from orin_llm.plots.charts import Bins, Mark, histogram

_WIDE = 4.0  # longest over shortest gap, from which on equal factors are equal steps
_LEAST_MS = 0.01  # where an axis of factors begins, for gaps of nothing
_GAPS_PER_BIN = 12  # at least, on average


def gap_pictures(results: Sequence[Result]) -> Iterator[Picture]:
    """One for each workload that has gaps, up to MOST_OF_A_KIND."""
    by_label: dict[str, list[Result]] = {}
    for result in results:
        if result.itl_histogram is not None:
            by_label.setdefault(result.label, []).append(result)
    drawn = list(by_label.items())[:MOST_OF_A_KIND]
    for number, (label, members) in enumerate(drawn, start=1):
        last = left_out(len(by_label)) if number == len(drawn) else ""
        yield _picture(f"itl-{number}", label, members, last)


def _picture(name: str, label: str, members: Sequence[Result], more: str) -> Picture:
    found = [(r, r.itl_histogram) for r in members if r.itl_histogram is not None]
    wide = any(_is_wide(gaps) for _, gaps in found)
    bins = [_bins(str(r.engine["name"]), gaps) for r, gaps in found]
    marks = []
    if len(found) == 1 and (told := found[0][0].latency.get("itl_ms")):
        marks = [Mark(told.p50, "median"), Mark(told.p99, "p99")]
    longest = max(gaps.edges_ms[-1] for _, gaps in found)
    return Picture(
        name,
        lambda: histogram(
            bins, title=f"Gaps between tokens: {label}", x_label="ITL, ms", y_label="gaps",
            log_x=wide, marks=marks,
        ),
        f"Every gap of all completed requests; the longest took {longest:.4g} ms.{more}",
    )  # fmt: skip


def _is_wide(gaps: Histogram) -> bool:
    return gaps.edges_ms[-1] > _WIDE * max(gaps.edges_ms[0], _LEAST_MS)


def _bins(name: str, gaps: Histogram) -> Bins:
    """Several bins as one where there are few gaps for them: a comb shows nothing."""
    filled = sum(count > 0 for count in gaps.counts)
    width = 1
    while width < 8 and sum(gaps.counts) < _GAPS_PER_BIN * filled / width:
        width *= 2
    edges = [max(edge, _LEAST_MS) for edge in gaps.edges_ms[::width]]
    counts = [sum(gaps.counts[at : at + width]) for at in range(0, len(gaps.counts), width)]
    return Bins(name, edges, counts)
