"""What is shown and logged of a snapshot: figures of the engines, and alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from orin_llm.monitor.snapshot import Snapshot


@dataclass(frozen=True)
class EngineFigures:
    """An engine, worked out from its statistics. None where there is nothing to work it out from.

    Attributes:
        running, waiting: requests now; `max_running` can run at once.
        prefill_tokens_per_s, decode_tokens_per_s: of all requests, since the snapshot before.
        is_computing: requests run, and no step has ended since then: the rates are 0, and will be
            more when it has.
        step_ms: of llama.cpp's computation and drawing, mean of the decode steps since then.
        ttft_ms, tpot_ms: means of the newest answers, as many as the window has; None where there
            are not that many, or not of the last minutes.
        window_answers: as many of the window for `ttft_ms` there are.
        tpot_window_answers: the same for `tpot_ms`, which answers of one token do not have.
        last_ttft_ms, last_tpot_ms: of the newest answer.
        answers: that have ended since the engine was made.
        kv_used: part of the KV cache that sequences hold, 0 … 1; pages and bytes below.
        hit_rate: pages that were there already among those that attention read.
    """

    name: str
    pid: int
    model: str
    running: int = 0
    waiting: int = 0
    max_running: int = 0
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    is_computing: bool = False
    step_ms: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    window_answers: int = 0
    tpot_window_answers: int = 0
    last_ttft_ms: float | None = None
    last_tpot_ms: float | None = None
    answers: int = 0
    kv_used: float | None = None
    kv_pages_used: int | None = None
    kv_pages_total: int | None = None
    kv_bytes_used: int | None = None
    kv_bytes_reserved: int | None = None
    hit_rate: float | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class Alert:
    """Something that is over its threshold.

    Attributes:
        rule: such as `temperature_c`, as in the file of thresholds.
        subject: the engine's name; "" for the machine.
        value: that raised it, or the newest one.
        since_ms: Unix time.
        text: for people, such as `temperature 91.5 °C (tj), above 85 °C`.
    """

    rule: str
    subject: str
    value: float
    threshold: float
    since_ms: float
    text: str

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class AlertEvent:
    """An alert that begins or ends."""

    kind: Literal["raised", "cleared"]
    at_ms: float
    alert: Alert

    def to_json(self) -> dict[str, Any]:
        """One object."""
        return {"event": self.kind, "at_ms": self.at_ms, **self.alert.to_json()}


@dataclass(frozen=True)
class State:
    """A snapshot with what follows from it and from those before.

    Attributes:
        alerts: that are up now, the oldest first.
        events: alerts that this snapshot raised or cleared.
        problems: why sources give nothing, by the source's name.
    """

    snapshot: Snapshot
    engines: tuple[EngineFigures, ...] = ()
    alerts: tuple[Alert, ...] = ()
    events: tuple[AlertEvent, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
