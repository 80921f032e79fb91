"""Figures of engines, from the lines that they publish one after the other."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from orin_llm.monitor.numbers import count_at, number_at
from orin_llm.monitor.snapshot import EngineSample, Snapshot
from orin_llm.monitor.state import EngineFigures

OLD_MIN = 5  # an answer that ended longer ago says nothing of now
STALE_MS = 5000.0  # rates of an engine that has said nothing for so long are not of now

# Members of a line that only grow while an engine lives.
_COUNTERS = (
    ("steps", "total"),
    ("tokens", "prefilled"),
    ("tokens", "decoded"),
    ("requests", "submitted"),
)


class Figures:
    """Works out figures of all engines, snapshot by snapshot.

    What is remembered of an engine goes when the engine does.
    """

    def __init__(self, ttft_window: int, tpot_window: int) -> None:
        """The windows are numbers of answers."""
        self._windows = ttft_window, tpot_window
        self._engines: dict[str, _Engine] = {}

    def update(self, snapshot: Snapshot) -> tuple[EngineFigures, ...]:
        """The engines' figures now, in the snapshot's order."""
        known = self._engines
        self._engines = {}
        figures = []
        for sample in snapshot.engines:
            engine = known.get(sample.name)
            if engine is None or engine.is_another(sample):
                engine = _Engine(*self._windows)
            self._engines[sample.name] = engine
            figures.append(engine.update(sample, snapshot.at_ms))
        return tuple(figures)


class _Engine:
    """What an engine said before: its last line, its newest answers."""

    def __init__(self, ttft_window: int, tpot_window: int) -> None:
        self._ttft_ms = _Window(ttft_window)
        self._tpot_ms = _Window(tpot_window)
        self._last_ttft_ms: float | None = None
        self._last_tpot_ms: float | None = None
        self._number = 0
        self._pid = 0
        self._line: Mapping[str, Any] | None = None
        self._rates: dict[str, Any] = {}

    def is_another(self, sample: EngineSample) -> bool:
        """Whether the name was given to a new engine: what can only grow is less than it was."""
        if self._line is None:
            return False
        before, now = self._line, sample.statistics
        went_back = any(
            (number_at(now, *path) or 0) < (number_at(before, *path) or 0)
            for path in (*_COUNTERS, ("monotonic_ms",))
        )
        return went_back or sample.pid != self._pid or _newest_number(now) < self._number

    def update(self, sample: EngineSample, at_ms: float) -> EngineFigures:
        line = sample.statistics
        self._take_answers(line)
        now_ms = number_at(line, "monotonic_ms")
        if now_ms is not None:
            for window in (self._ttft_ms, self._tpot_ms):
                window.forget_before(now_ms - OLD_MIN * 60e3)
        if self._line is None or _elapsed_s(self._line, line) > 0:
            self._rates = {} if self._line is None else _rates(self._line, line)
            self._line, self._pid = line, sample.pid
        said_ms = number_at(line, "at_ms")
        is_stale = said_ms is not None and at_ms - said_ms > STALE_MS
        used, total = count_at(line, "kv", "pages_used"), _pages_total(line)
        return EngineFigures(
            name=sample.name,
            pid=sample.pid,
            model=sample.model,
            running=count_at(line, "requests", "running") or 0,
            waiting=count_at(line, "requests", "waiting") or 0,
            max_running=count_at(line, "lanes", "max") or 0,
            **({} if is_stale else self._rates),
            ttft_ms=self._ttft_ms.mean,
            tpot_ms=self._tpot_ms.mean,
            window_answers=len(self._ttft_ms),
            tpot_window_answers=len(self._tpot_ms),
            last_ttft_ms=self._last_ttft_ms,
            last_tpot_ms=self._last_tpot_ms,
            answers=self._number or count_at(line, "requests", "finished") or 0,
            kv_used=used / total if used is not None and total else None,
            kv_pages_used=used,
            kv_pages_total=total,
            kv_bytes_used=count_at(line, "kv", "bytes_used"),
            kv_bytes_reserved=count_at(line, "kv", "bytes_reserved"),
            hit_rate=number_at(line, "kv", "hit_rate"),
        )

    def _take_answers(self, line: Mapping[str, Any]) -> None:
        """Those that are new. Where more have ended than a line holds, the rest are not seen."""
        for answer in _answers(line):
            number = count_at(answer, "number")
            if number is None or number <= self._number:
                continue
            self._number = number
            ttft_ms, tpot_ms = number_at(answer, "ttft_ms"), number_at(answer, "tpot_ms")
            self._last_ttft_ms, self._last_tpot_ms = ttft_ms, tpot_ms
            ended_ms = number_at(answer, "ended_ms")
            if ttft_ms is not None:
                self._ttft_ms.add(ended_ms, ttft_ms)
            if tpot_ms is not None:  # an answer of one token has none
                self._tpot_ms.add(ended_ms, tpot_ms)


class _Window:
    """The newest values, each with when it came; one without a time does not get old."""

    def __init__(self, size: int) -> None:
        self._values: deque[tuple[float, float]] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, at_ms: float | None, value: float) -> None:
        self._values.append((math.inf if at_ms is None else at_ms, value))

    def forget_before(self, at_ms: float) -> None:
        while self._values and self._values[0][0] < at_ms:
            self._values.popleft()

    @property
    def mean(self) -> float | None:
        """None while it is not full."""
        if len(self._values) != self._values.maxlen:
            return None
        return sum(value for _, value in self._values) / len(self._values)


def _rates(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    elapsed_s = _elapsed_s(before, now)

    def grown(*path: str) -> float | None:
        first, second = number_at(before, *path), number_at(now, *path)
        return None if first is None or second is None else second - first

    def ratio(top: float | None, bottom: float | None) -> float | None:
        return top / bottom if top is not None and bottom else None

    decode_ms = ratio(grown("time_ms", "decode"), grown("steps", "decode"))
    drawing_ms = ratio(grown("time_ms", "sampling"), grown("steps", "total"))
    return {
        "prefill_tokens_per_s": ratio(grown("tokens", "prefilled"), elapsed_s),
        "decode_tokens_per_s": ratio(grown("tokens", "decoded"), elapsed_s),
        "is_computing": grown("steps", "total") == 0 and bool(count_at(now, "requests", "running")),
        "step_ms": None if decode_ms is None else decode_ms + (drawing_ms or 0.0),
    }


def _elapsed_s(before: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    first, second = number_at(before, "monotonic_ms"), number_at(now, "monotonic_ms")
    return 0.0 if first is None or second is None else (second - first) / 1e3


def _pages_total(line: Mapping[str, Any]) -> int | None:
    counts = [count_at(line, "kv", f"pages_{state}") for state in ("used", "cached", "free")]
    return None if None in counts else sum(count or 0 for count in counts)


def _answers(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    answers = line.get("answers")
    if not isinstance(answers, list):
        return []
    return [answer for answer in answers if isinstance(answer, Mapping)]


def _newest_number(line: Mapping[str, Any]) -> int:
    return max((count_at(answer, "number") or 0 for answer in _answers(line)), default=0)
