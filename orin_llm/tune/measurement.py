"""What was measured of one candidate. What could not be read is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from orin_llm.device.reading import mean


@dataclass(frozen=True)
class Sample:
    """One repetition.

    Attributes:
        ttft_ms: of one stream, by the prompt's tokens.
        tpot_ms: of one stream.
        tokens_per_s: of all streams of the concurrent part together: prompts and answers.
        concurrent_tpot_ms: of a stream among the others there.
        joules_per_token, power_w: of the whole repetition; tokens of prompts and of answers.
        elapsed_s: that it took.
    """

    ttft_ms: Mapping[int, float] = field(default_factory=dict)
    tpot_ms: float | None = None
    tokens_per_s: float | None = None
    concurrent_tpot_ms: float | None = None
    joules_per_token: float | None = None
    power_w: float | None = None
    elapsed_s: float = 0.0

    def check(self) -> None:
        """ValueError where a figure is none that can be measured."""
        figures = {**vars(self), **{f"ttft_ms of {n}": ms for n, ms in self.ttft_ms.items()}}
        del figures["ttft_ms"]
        for name, value in figures.items():
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}: expected a number, 0 or more")


@dataclass(frozen=True)
class Load:
    """What the device did in one phase: means over time.

    Attributes:
        emc_percent: of what the memory can do at its clock `emc_mhz`.
    """

    gpu_percent: float | None = None
    gpu_mhz: float | None = None
    emc_percent: float | None = None
    emc_mhz: float | None = None
    bandwidth_gb_s: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class Pages:
    """What the page size costs.

    Attributes:
        decode_compute_ms: of a step that decodes one token behind the longest prompt: reading the
            pages is part of it.
        prefill_compute_ms: of a prompt token, of the longest prompt: writing them is part of it.
        waste: part of the pages' memory that held no token, in the fullest step.
    """

    decode_compute_ms: float | None = None
    prefill_compute_ms: float | None = None
    waste: float | None = None


@dataclass(frozen=True)
class Measurement:
    """Repetitions of one candidate, and what the device did meanwhile.

    Attributes:
        samples: one for each repetition, in order.
        prefill, decode: loads by phase.
        hottest_c: the highest temperature of any sensor.
        throttled: what slowed the machine down; None where nothing tells, empty: nothing did.
        load_s: that making the engine and its warm-up took.
    """

    samples: tuple[Sample, ...]
    prefill: Load = field(default_factory=Load)
    decode: Load = field(default_factory=Load)
    pages: Pages = field(default_factory=Pages)
    hottest_c: float | None = None
    throttled: tuple[str, ...] | None = None
    load_s: float = 0.0

    @property
    def ttft_ms(self) -> dict[int, float]:
        """Medians by the prompt's tokens."""
        lengths = dict.fromkeys(length for sample in self.samples for length in sample.ttft_ms)
        return {
            length: median(s.ttft_ms[length] for s in self.samples if length in s.ttft_ms)
            for length in sorted(lengths)
        }

    @property
    def tpot_ms(self) -> float | None:
        return self._median(lambda sample: sample.tpot_ms)

    @property
    def tokens_per_s(self) -> float | None:
        return self._median(lambda sample: sample.tokens_per_s)

    @property
    def concurrent_tpot_ms(self) -> float | None:
        return self._median(lambda sample: sample.concurrent_tpot_ms)

    @property
    def joules_per_token(self) -> float | None:
        return self._median(lambda sample: sample.joules_per_token)

    @property
    def power_w(self) -> float | None:
        return self._median(lambda sample: sample.power_w)

    @property
    def elapsed_s(self) -> float:
        """All of it, loading included."""
        return self.load_s + sum(sample.elapsed_s for sample in self.samples)

    def _median(self, of: Callable[[Sample], float | None]) -> float | None:
        known = [value for sample in self.samples if (value := of(sample)) is not None]
        return median(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """All fields; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        """What `to_json` gave, by way of JSON (where keys are texts).

        Raises KeyError, TypeError or ValueError where it is something else.
        """
        samples = tuple(
            Sample(**{**s, "ttft_ms": {int(length): ms for length, ms in s["ttft_ms"].items()}})
            for s in data["samples"]
        )
        for sample in samples:
            sample.check()
        throttled = data["throttled"]
        return cls(
            samples=samples,
            prefill=Load(**data["prefill"]),
            decode=Load(**data["decode"]),
            pages=Pages(**data["pages"]),
            hottest_c=data["hottest_c"],
            throttled=None if throttled is None else tuple(throttled),
            load_s=data["load_s"],
        )

    @classmethod
    def joined(cls, parts: Sequence[Measurement]) -> Measurement:
        """All repetitions of one candidate, measured at several times, one at least.

        Loads are means of what was read; the temperature is the highest.
        """
        seen = [part.throttled for part in parts if part.throttled is not None]
        return cls(
            samples=tuple(sample for part in parts for sample in part.samples),
            prefill=_mean_of(Load, [part.prefill for part in parts]),
            decode=_mean_of(Load, [part.decode for part in parts]),
            pages=_mean_of(Pages, [part.pages for part in parts]),
            hottest_c=max((p.hottest_c for p in parts if p.hottest_c is not None), default=None),
            throttled=tuple(dict.fromkeys(w for words in seen for w in words)) if seen else None,
            load_s=sum(part.load_s for part in parts),
        )


def _mean_of(kind: Any, parts: Iterable[Any]) -> Any:
    rows = [asdict(part) for part in parts]
    return kind(**{name: mean(row[name] for row in rows) for name in rows[0]})
