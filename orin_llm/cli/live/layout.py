"""The whole picture: rows where there is little room, tiles where there is much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from orin_llm.cli.live.alerts import alert_lines, event_lines
from orin_llm.cli.live.frame import problem_line
from orin_llm.cli.live.glyphs import Glyphs
from orin_llm.cli.live.rows import measure_row
from orin_llm.cli.live.sections import Section, engine_section, machine_section
from orin_llm.cli.live.story import Story
from orin_llm.cli.live.text import Line, Span, fitted, line_width
from orin_llm.cli.live.tiles import MIN_HEIGHT, MIN_WIDTH, count_rows, tile_rows
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.state import State
from orin_llm.monitor.thresholds import Thresholds

_GOOD_TILE_HEIGHT, _MAX_TILE_HEIGHT = 7, 18
_GOOD_COLUMNS = 3
_MOST_FIGURES = 7, 6  # of the machine and of an engine
_AROUND_TILES = 13  # lines: titles, some alerts, notes and events
_SIDE_BY_SIDE = 130  # columns from which machine and engine stand beside each other
_SMALL_HEIGHT = 20  # lines below which fewer alerts are shown
_MAX_EVENTS = 5  # that tiles leave room for
_PROBLEMS_RANK = 4

Row = tuple[int, Line]  # its rank: the higher, the sooner it is left out; 0 stays


@dataclass(frozen=True)
class Scene:
    """What does not change from state to state."""

    subject: Subject
    thresholds: Thresholds
    glyphs: Glyphs
    is_replay: bool = False


def picture(scene: Scene, story: Story, chosen: str, width: int, height: int) -> list[Line]:
    """Lines of exactly `width` cells: all that matters, in `height` lines if that is possible.

    Args:
        chosen: the name of the engine that is shown; the first one, if there is none of it.
    """
    state = story.state
    if state is None:
        return [fitted((Span("waiting for the first reading", "dim"),), width)]
    sections = (
        machine_section(state, scene.subject, scene.thresholds, story.seen, scene.glyphs),
        engine_section(state, scene.thresholds, chosen, is_replay=scene.is_replay),
    )
    top = _top(state, width, height)
    if _has_tiles(width, height):
        rows = _tiled(scene, story, sections, width, height - len(top))
    else:
        rows = _in_rows(scene, story, sections, width)
    lines = _fewest_that_matter([*top, *rows], height)
    return [*lines, *_events(story, width, height - len(lines), scene.glyphs)]


def _top(state: State, width: int, height: int) -> list[Row]:
    """What is seen first, and never scrolled away: alerts that are up, then problems."""
    count = 3 if height < _SMALL_HEIGHT else 4
    alerts = alert_lines(state.alerts, state.snapshot.at_ms, width, count)
    rows = [(0, fitted(line, width)) for line in alerts]
    problems = problem_line(state, width)
    return [*rows, (_PROBLEMS_RANK, problems)] if problems else rows


def _has_tiles(width: int, height: int) -> bool:
    """Whether a terminal has room for tiles. By its size alone: alerts come and go."""
    columns = width // MIN_WIDTH
    if columns == 0:
        return False
    rows = sum(count_rows(count, columns) for count in _MOST_FIGURES)
    return height >= rows * MIN_HEIGHT + _AROUND_TILES


def _tiled(
    scene: Scene, story: Story, sections: Sequence[Section], width: int, height: int
) -> list[Row]:
    """Titles, tiles and notes."""
    events = 1 + max(1, min(len(story.events), _MAX_EVENTS))
    fixed = events + sum(1 + len(section.notes) for section in sections)
    columns, tile_height = _tile_size(sections, width, height - fixed)
    rows: list[Row] = []
    for section in sections:
        rows.append((0, _rule(section.title, width, scene.glyphs)))
        tiles = tile_rows(
            section.measures, columns, width, tile_height, story.history, scene.glyphs
        )
        rows += [(0, line) for line in tiles]
        rows += [(rank, fitted(line, width)) for rank, line in section.notes]
    return rows


def _tile_size(sections: Sequence[Section], width: int, height: int) -> tuple[int, int]:
    """Columns of tiles, and lines of each: more columns only where that gives the height."""
    most = width // MIN_WIDTH
    fewest = min(_GOOD_COLUMNS, most)
    best = fewest, MIN_HEIGHT
    for columns in range(fewest, most + 1):
        rows = sum(count_rows(len(section.measures), columns) for section in sections)
        best = max(best, (columns, min(height // rows, _MAX_TILE_HEIGHT)), key=lambda size: size[1])
        if best[1] >= _GOOD_TILE_HEIGHT:
            break
    return best


def _in_rows(scene: Scene, story: Story, sections: Sequence[Section], width: int) -> list[Row]:
    if width < _SIDE_BY_SIDE:
        return [row for section in sections for row in _rows(scene, story, section, width)]
    left_width = (width - 2) // 2
    right_width = width - 2 - left_width
    left = _rows(scene, story, sections[0], left_width)
    right = _rows(scene, story, sections[1], right_width)
    rows: list[Row] = []
    for one, other in zip_longest(left, right):
        first = one or (other[0], fitted((), left_width))
        second = other or (one[0], fitted((), right_width))
        rows.append((min(first[0], second[0]), (*first[1], Span("  "), *second[1])))
    return rows


def _rows(scene: Scene, story: Story, section: Section, width: int) -> list[Row]:
    return [
        (0, _rule(section.title, width, scene.glyphs)),
        *(
            (measure.rank, measure_row(measure, story.history, width, scene.glyphs))
            for measure in section.measures
        ),
        *((rank, fitted(line, width)) for rank, line in section.notes),
    ]


def _fewest_that_matter(rows: Sequence[Row], height: int) -> list[Line]:
    """Without those of the highest ranks, the last first, as far as they do not fit."""
    kept = list(rows)
    while len(kept) > height:
        worst, last = max((rank, n) for n, (rank, _) in enumerate(kept))
        if worst == 0:
            break
        del kept[last]
    return [line for _, line in kept]


def _events(story: Story, width: int, room: int, glyphs: Glyphs) -> list[Line]:
    """They fill the lines that are left; where there are none, they are left out."""
    if room < 2:
        return []
    events = event_lines(story.events, width)[: room - 1] or [(Span("none so far", "dim"),)]
    title = (Span("Alerts", "title"),)
    return [_rule(title, width, glyphs), *(fitted(line, width) for line in events)]


def _rule(title: Line, width: int, glyphs: Glyphs) -> Line:
    level = glyphs.box[4]
    wanted = min(line_width(title) + 3, width)
    head = fitted((Span(f"{level} ", "dim"), *title, Span(" ")), wanted)
    return (*head, Span(level * (width - wanted), "dim"))
