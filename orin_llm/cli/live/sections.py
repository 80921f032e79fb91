"""What is shown of the machine and of the chosen engine: a title, figures, and lines below."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orin_llm.cli.live.engine import engine_measures, engine_row, model_name
from orin_llm.cli.live.glyphs import Glyphs
from orin_llm.cli.live.machine import machine_measures, machine_notes
from orin_llm.cli.live.measure import Measure
from orin_llm.cli.live.text import Line, Span
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.state import EngineFigures, State
from orin_llm.monitor.thresholds import Thresholds

_MAX_LISTED = 6
_LIST_RANK = 3
_NO_ENGINE: Sequence[tuple[int, Line]] = (
    (0, (Span("No engine runs. Start one in another terminal: "), Span("orin-llm chat", "key"))),
    (_LIST_RANK, (Span("It appears here by itself; other users' engines do not.", "dim"),)),
)
_NONE_RECORDED: Sequence[tuple[int, Line]] = (
    (0, (Span("No engine in the recording at this time."),)),
)


@dataclass(frozen=True)
class Section:
    """Figures that belong together; each of the notes has a rank, as figures do."""

    title: Line
    measures: Sequence[Measure]
    notes: Sequence[tuple[int, Line]]


def machine_section(
    state: State, subject: Subject, thresholds: Thresholds, seen: Collection[str], glyphs: Glyphs
) -> Section:
    """The machine; `seen` are the keys of figures that were ever read."""
    measures = machine_measures(state, subject, thresholds, seen, glyphs)
    return Section((Span("Machine", "title"),), measures, machine_notes(state))


def engine_section(
    state: State, thresholds: Thresholds, chosen: str, *, is_replay: bool
) -> Section:
    """The chosen engine, and a list where there are several; or how to start one."""
    engines = state.engines
    if not engines:
        return Section((Span("Engine", "title"),), (), _NONE_RECORDED if is_replay else _NO_ENGINE)
    at = index_of(engines, chosen)
    engine = engines[at]
    number = "Engine" if len(engines) == 1 else f"Engine {at + 1} of {len(engines)}"
    title = (
        Span(number, "title"),
        Span(f" {model_name(engine)}", "strong"),
        Span(f" pid {engine.pid}", "dim"),
    )
    notes = [(_LIST_RANK, line) for line in _list(state, at)]
    return Section(title, engine_measures(engine, state.alerts, thresholds), notes)


def index_of(engines: Sequence[EngineFigures], name: str) -> int:
    """Of the engine with this name; the first one's if there is none."""
    return next((n for n, engine in enumerate(engines) if engine.name == name), 0)


def _list(state: State, chosen: int) -> list[Line]:
    """All where they are several; of very many, those around the chosen one."""
    engines = state.engines
    if len(engines) == 1:
        return []
    first = min(max(0, chosen - _MAX_LISTED // 2), max(0, len(engines) - _MAX_LISTED))
    shown = range(first, min(first + _MAX_LISTED, len(engines)))
    return [engine_row(engines[n], state.alerts, n == chosen) for n in shown]
