"""What is measured of a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orin_llm.bench.cool_down import require_limit
from orin_llm.bench.serve.address import Address
from orin_llm.bench.serve.load import Load
from orin_llm.bench.turns import require_rounds


@dataclass(frozen=True)
class ServeCampaign:
    """What is measured.

    Attributes:
        model: as the server calls it; "" for the first that it has.
        key, body, timeout_s: see Client.
        loads: one after another.
        repetitions: of each.
        warmup: requests before each load that do not count.
        seed: of prompts, lengths and arrivals.
        cool_down_s: see cool_down.py.
    """

    address: Address
    loads: tuple[Load, ...]
    model: str = ""
    endpoint: str = "chat"
    key: str = ""
    body: Mapping[str, Any] | None = None
    timeout_s: float = 300.0
    repetitions: int = 1
    warmup: int = 2
    seed: int = 0
    cool_down_s: float = 0.0

    def __post_init__(self) -> None:
        require_rounds(self.repetitions, self.warmup, "requests to warm up")
        require_limit(self.cool_down_s)
