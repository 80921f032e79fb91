"""States, pictures and feeds for the tests of the live view."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from orin_llm.cli.live.glyphs import BLOCKS, Glyphs
from orin_llm.cli.live.layout import Scene, picture
from orin_llm.cli.live.story import Story
from orin_llm.cli.live.text import Line, line_width
from orin_llm.device.reading import Core, Reading
from orin_llm.monitor.snapshot import Snapshot, Subject
from orin_llm.monitor.state import Alert, EngineFigures, State
from orin_llm.monitor.thresholds import Threshold, Thresholds, default_thresholds

START_MS = 1.8e12
ORIN = Subject(
    "NVIDIA Jetson AGX Orin Developer Kit", True, "36.4.3", "6.2", "MODE_30W", 30.0, 204.8
)
PC = Subject("Workstation 4")

BUSY: dict[str, Any] = {
    "sources": ("tegrastats", "sysfs"),
    "cores": (Core(True, 100.0, 1728.0), Core(True, 0.0, 1728.0), Core(False)),
    "cpu_percent": 50.0,
    "gpu_percent": 92.0,
    "gpu_mhz": 612.0,
    "emc_percent": 84.0,
    "emc_mhz": 3199.0,
    "bandwidth_gb_s": 171.7,
    "ram_used_bytes": 16_500_000_000,
    "ram_total_bytes": 65_900_000_000,
    "swap_used_bytes": 0,
    "swap_total_bytes": 32_900_000_000,
    "gpu_memory_used_bytes": 4_290_000_000,
    "temperatures_c": {"cpu": 55.5, "gpu": 53.25, "tj": 56.0},
    "rails_w": {"VDD_GPU_SOC": 18.0, "VDD_CPU_CV": 5.0, "VIN_SYS_5V0": 8.0},
    "power_w": 31.0,
    "throttled": (),
    "over_current_events": 3,
}


def engine(name: str = "7-0", **figures: Any) -> EngineFigures:
    """An engine that decodes for three of eight."""
    values: dict[str, Any] = {
        "running": 3,
        "waiting": 2,
        "max_running": 8,
        "prefill_tokens_per_s": 1234.5,
        "decode_tokens_per_s": 41.23,
        "step_ms": 24.3,
        "window_answers": 10,
        "tpot_window_answers": 10,
        "ttft_ms": 231.4,
        "tpot_ms": 25.46,
        "last_ttft_ms": 210.0,
        "last_tpot_ms": 26.1,
        "answers": 17,
        "kv_used": 0.43,
        "kv_pages_used": 1374,
        "kv_pages_total": 3200,
        "kv_bytes_used": 412_000_000,
        "kv_bytes_reserved": 1_024_000_000,
        "hit_rate": 0.9983,
    }
    return EngineFigures(name, int(name.split("-")[0]), "/models/a.gguf", **(values | figures))


def alert(rule: str, text: str, subject: str = "", value: float = 91.5, above: float = 85) -> Alert:
    return Alert(rule, subject, value, above, START_MS - 60_000, text)


def state(at_s: float = 0.0, *engines: EngineFigures, **changes: Any) -> State:
    """At a time from the start on; changes are of the reading or of the state."""
    of_state = {key: changes.pop(key) for key in ("alerts", "events", "problems") if key in changes}
    snapshot = Snapshot(START_MS + at_s * 1e3, Reading(at_s * 1e3, **changes))
    return State(snapshot, engines, **of_state)


def story_of(states: Iterable[State], interval_s: float = 1.0) -> Story:
    story = Story(interval_s)
    for one in states:
        story.add(one)
    return story


def text_of(lines: Sequence[Line], glyphs: Glyphs = BLOCKS) -> str:
    return "\n".join(glyphs.written("".join(span.text for span in line)) for line in lines)


def shown(
    *states: State,
    size: tuple[int, int] = (80, 24),
    subject: Subject = ORIN,
    glyphs: Glyphs = BLOCKS,
    chosen: str = "",
) -> str:
    """The figures after these states, each line as wide as the terminal."""
    scene = Scene(subject, default_thresholds(subject.budget_w), glyphs)
    lines = picture(scene, story_of(states), chosen, *size)
    assert {line_width(line) for line in lines} == {size[0]}
    return text_of(lines, glyphs)


def row_of(text: str, label: str) -> str:
    """The line that begins with a figure's label."""
    rows = [line for line in text.split("\n") if line.startswith(label)]
    assert len(rows) == 1, text
    return rows[0]


def tone_of(lines: Sequence[Line], piece: str) -> str:
    """Of the span that has this text in it."""
    tones = {span.tone for line in lines for span in line if piece in span.text}
    assert len(tones) == 1, (piece, tones)
    return tones.pop()


def lines_with(one: State, size: tuple[int, int] = (80, 24), **thresholds: Threshold) -> list[Line]:
    """The lines of a state of the board, with these thresholds or the usual ones."""
    scene = Scene(ORIN, Thresholds(**thresholds) if thresholds else default_thresholds(30), BLOCKS)
    return picture(scene, story_of([one]), "", *size)


def snapshots(count: int, **reading: float) -> list[Snapshot]:
    return [Snapshot(START_MS + n * 1e3, Reading(n * 1e3, **reading)) for n in range(count)]


class ListFeed:
    """Gives these, then is over, or raises what stands among them."""

    note = ""

    def __init__(
        self,
        entries: Sequence[Snapshot | Exception],
        subject: Subject = ORIN,
        interval_s: float = 1,
    ) -> None:
        self.subject, self.interval_s = subject, interval_s
        self.problems: dict[str, str] = {"jtop": "not active"}
        self.taken = 0
        self._entries = entries

    def next(self) -> Snapshot | None:
        if self.taken == len(self._entries):
            return None
        entry = self._entries[self.taken]
        self.taken += 1
        if isinstance(entry, Exception):
            raise entry
        return entry

    def close(self) -> None:
        pass


class GatedFeed(ListFeed):
    """Waits at each snapshot until it is let through: a sensor that is slow."""

    def __init__(self, entries: Sequence[Snapshot | Exception]) -> None:
        super().__init__(entries)
        self.gate = threading.Semaphore(0)
        self.asked = threading.Semaphore(0)

    def next(self) -> Snapshot | None:
        self.asked.release()
        self.gate.acquire()
        return super().next()
