"""Which combinations are worth a measurement: one knob at a time first, then what these promise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from orin_llm.tune.knobs import Candidate, Space, Value

_PRIOR = 0.02  # of a value's effect: pulls the effects that nothing tells towards none


def star(space: Space) -> Iterator[Candidate]:
    """The candidates that differ from the default in one knob, from it outwards."""
    for knob in space.knobs:
        middle = knob.values.index(knob.default)
        order = sorted(range(len(knob.values)), key=lambda i: abs(i - middle))
        for index in order[1:]:
            candidate = space.default.having(knob.name, knob.values[index])
            if space.allowed(candidate):
                yield candidate


def neighbours(space: Space, candidate: Candidate) -> list[Candidate]:
    """Those that differ from a candidate, not the default, in one step of one knob."""
    found = []
    for knob in space.knobs:
        index = knob.values.index(candidate[knob.name])
        for near in (index - 1, index + 1):
            if 0 <= near < len(knob.values):
                other = candidate.having(knob.name, knob.values[near])
                if other != space.default and space.allowed(other):
                    found.append(other)
    return found


def predictions(
    space: Space, measured: Mapping[Candidate, float], wanted: list[Candidate]
) -> list[float]:
    """Log costs of candidates if each value had an effect of its own, by least squares.

    Effects are relative to the default's values. A value that was never measured has none.
    """
    columns: dict[tuple[str, Value], int] = {}
    for knob in space.knobs:
        for value in knob.values:
            if value != knob.default:
                columns[knob.name, value] = len(columns)
    if not columns or not measured:
        return [0.0] * len(wanted)

    def rows(candidates: list[Candidate]) -> np.ndarray:
        found = np.zeros((len(candidates), len(columns)))
        for row, candidate in zip(found, candidates, strict=True):
            for pair in candidate.pairs:
                if pair in columns:
                    row[columns[pair]] = 1.0
        return found

    known = [*measured]
    matrix = np.vstack([rows(known), _PRIOR * np.eye(len(columns))])
    targets = np.concatenate([np.array([measured[c] for c in known]), np.zeros(len(columns))])
    effects = np.linalg.lstsq(matrix, targets, rcond=None)[0]
    return [float(value) for value in rows(wanted) @ effects]
