"""A comparison with an earlier report for people: Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orin_llm.bench.tables import number, table
from orin_llm.host.units import counted

if TYPE_CHECKING:
    from orin_llm.bench.versus import Change, Difference, Pair, Versus

EXPLAINED = (
    "Medians of the repetitions; times as fast as before (of amounts: as much), with the 95 % "
    "interval of the ratio, which needs two repetitions of each. The interval covers what varied "
    "between the repetitions, not what changed between the two campaigns, such as the temperature "
    "or other programs."
)
_NAMES = {
    "prefill_tokens_per_s": "prefill tok/s",
    "decode_tokens_per_s": "decode tok/s",
    "output_tokens_per_s": "output tok/s",
    "requests_per_s": "requests/s",
    "ttft_ms": "TTFT ms",
    "tpot_ms": "TPOT ms",
    "joules_per_token": "J/token",
}
_WHOLE = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s")


def versus_to_markdown(found: Versus) -> str:
    """What differs, then one table of all figures, then what had no partner."""
    rows = [_row(pair, change) for pair in found.pairs for change in _told(pair)]
    heads = ("workload", "engine", "figure", "before", "now", "times", "95 %", "")
    alone = [("before", found.only_before), ("now", found.only_now)]
    parts = [
        f"Compared with {found.path}",
        *warnings(found),
        *([f"program: {_list(found.program)}"] if found.program else []),
        _count([change for pair in found.pairs for change in _told(pair)]),
        EXPLAINED,
        table(*heads, rows=rows).rstrip("\n"),
        *(f"only {when}: {'; '.join(names)}" for when, names in alone if names),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def warnings(found: Versus) -> list[str]:
    """What makes the two hard to compare, in sentences."""
    said = []
    if found.conditions:
        said.append(f"**Not measured under the same conditions**: {_list(found.conditions)}")
    alike: dict[str, list[str]] = {}
    for pair in found.pairs:
        if pair.differences:
            alike.setdefault(_list(pair.differences), []).append(pair.label)
    for text, labels in alike.items():
        of_all = len(labels) == len(found.pairs) > 1
        which = "all workloads" if of_all else ", ".join(dict.fromkeys(labels))
        said.append(f"**Not measured with the same settings**: {which}: {text}")
    if not found.pairs:
        said.append("**Nothing to compare**: no result has a partner.")
    return said


def _told(pair: Pair) -> list[Change]:
    """Rates of whole runs only where there are none of the phases, from which they follow."""
    by_phase = any(change.figure == "decode_tokens_per_s" for change in pair.changes)
    left_out = _WHOLE if by_phase else ("total_tokens_per_s",)
    return [change for change in pair.changes if change.figure not in left_out]


def _count(changes: Sequence[Change]) -> str:
    """`Of 8 figures: 6 faster, 2 no difference.`"""
    if not changes:
        return ""
    counts = Counter(change.verdict for change in changes)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return f"Of {counted(len(changes), 'figure')}: {said}."


def _row(pair: Pair, change: Change) -> list[str]:
    ratio = change.ratio
    interval = (
        "" if ratio.low is None or ratio.high is None else f"{ratio.low:.3f} … {ratio.high:.3f}"
    )
    return [
        pair.label,
        pair.engine,
        _NAMES.get(change.figure, change.figure),
        number(change.before),
        number(change.now),
        f"{ratio.mean:.3f}",
        interval,
        change.verdict,
    ]


def _list(differences: Sequence[Difference]) -> str:
    return ", ".join(difference.text for difference in differences)
