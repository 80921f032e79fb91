"""A check as Markdown: one page."""

from __future__ import annotations

from orin_llm.accept.outcome import Outcome
from orin_llm.accept.result import Acceptance
from orin_llm.accept.texts import (
    beside_text,
    engine_text,
    limit_text,
    reason_lines,
    value_text,
    verdict,
)
from orin_llm.bench.tables import Row, machine_lines, table

EXPLAINED = (
    "Prompts are random tokens, answers have exactly the length asked for and are greedy. Times "
    "are taken on the engine's thread, from the request to the token, after a warm-up."
)


def to_markdown(acceptance: Acceptance) -> str:
    """The verdict, where it was measured, and a row for each figure."""
    rows = [row for outcome in acceptance.outcomes for row in _rows(outcome)]
    reasons = [line for outcome in acceptance.outcomes for line in reason_lines(outcome)]
    figures = [
        f"{outcome.indicator.number}: {text}"
        for outcome in acceptance.outcomes
        if (text := beside_text(outcome))
    ]
    settings = engine_text(acceptance.settings)
    blocks = [
        f"# Acceptance: {verdict(acceptance)}",
        "\n".join([*machine_lines(acceptance.environment), *([settings] if settings else [])]),
        table("", "indicator", "result", "figure", "measured", "limit", "asked", rows=rows),
        "\n".join(f"- {line}" for line in reasons),
        EXPLAINED,
        "\n".join(f"- {line}" for line in figures),
    ]
    return "\n\n".join(block.rstrip("\n") for block in blocks if block) + "\n"


def _rows(outcome: Outcome) -> list[Row]:
    one = outcome.indicator
    rows: list[Row] = []
    for judgement in outcome.judgements:
        first = not rows
        rows.append(
            [
                str(one.number) if first else "",
                one.title if first else "",
                f"**{outcome.status}**" if first else "",
                judgement.criterion.title,
                value_text(judgement),
                limit_text(judgement),
                outcome.shape if first else "",
            ]
        )
    return rows
