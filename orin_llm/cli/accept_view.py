"""What `orin-llm accept` prints for people: one page."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from orin_llm.accept.outcome import Judgement, Outcome, Status
from orin_llm.accept.result import Acceptance
from orin_llm.accept.texts import (
    beside_text,
    engine_text,
    limit_text,
    machine_text,
    value_text,
    verdict,
)
from orin_llm.cli.paragraphs import output_width, print_paragraph, wrapped
from orin_llm.cli.render import tolerate_narrow_encoding
from orin_llm.models.describe import count_text

_STYLES: dict[Status, str] = {
    "passed": "green",
    "failed": "bold red",
    "not measurable": "yellow",
    "not judged": "cyan",
}
_FACT_CELLS = 11
_STATUS_CELLS = 16
_NUMBER_CELLS = 3


def print_acceptance(acceptance: Acceptance) -> None:
    """Where it was measured, the indicators, and the verdict."""
    tolerate_narrow_encoding(sys.stdout)
    console = Console(highlight=False)
    for name, value in _facts(acceptance):
        print_paragraph(value, name, _FACT_CELLS)
    print()
    for outcome in acceptance.outcomes:
        for line in _lines(outcome):
            console.print(line, soft_wrap=True)
    print()
    style = "bold green" if acceptance.accepted else "bold red"
    for row in wrapped(verdict(acceptance), output_width()):
        console.print(Text(row, style), soft_wrap=True)


def outcome_line(outcome: Outcome) -> str:
    """`1 ttft: passed, 3.21 ms (< 15 ms)`: said as soon as it is there."""
    figures = ", ".join(
        f"{value_text(judgement)} ({limit_text(judgement)})" for judgement in outcome.judgements
    )
    return f"{outcome.indicator.number} {outcome.indicator.name}: {outcome.status}, {figures}"


def _facts(acceptance: Acceptance) -> Iterator[tuple[str, str]]:
    environment = acceptance.environment
    model, commit = environment["model"], environment["commit"]
    program = f"{environment['version']}" + (f" ({commit})" if commit else "")
    yield "orin-llm", f"{program}, {environment['llama_cpp']}"
    yield "model", f"{model['name']} ({model['quant']}, {count_text(model['parameters'])})"
    yield "machine", machine_text(environment)
    if settings := engine_text(acceptance.settings):
        yield "engine", f"{settings}, device {environment['machine']['device']}"


def _lines(outcome: Outcome) -> Iterator[Text]:
    """The verdict; below it the figures, what was asked, and what else is to be said."""
    one, status = outcome.indicator, outcome.status
    indent = _NUMBER_CELLS + _STATUS_CELLS
    width = output_width() - indent
    first, *more = wrapped(one.title, width)
    yield Text.assemble(
        f"{one.number:<{_NUMBER_CELLS}}", (f"{status:<{_STATUS_CELLS}}", _STYLES[status]), first
    )
    texts = [*more, *map(_figure, outcome.judgements), outcome.shape]
    rows = [row for text in texts for row in wrapped(text, width)]
    if beside := beside_text(outcome):
        rows += wrapped(beside, width)
    rows += [row for reason in outcome.reasons for row in wrapped(reason, width)]
    for row in rows:
        yield Text(" " * indent + row)


def _figure(judgement: Judgement) -> str:
    return f"{judgement.criterion.title}: {value_text(judgement)} (limit {limit_text(judgement)})"
