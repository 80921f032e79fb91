"""What was measured of a server, for people: the lines above its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from orin_llm.bench.tables import program_text, stamp_line
from orin_llm.host.units import counted

EXPLAINED = (
    "As a client sees it: from the call (with its connection) to the event that brings the text. "
    "Included: network, HTTP, queueing, templates, tokenization. Excluded: warm-up, the ramp, what "
    "comes behind the last text. ITL are gaps between events, which may bring several tokens."
)


class Measured(Protocol):
    """What the lines tell of a result."""

    @property
    def repetitions(self) -> int: ...
    @property
    def warmup(self) -> int: ...
    @property
    def seed(self) -> int: ...


def server_lines(environment: Mapping[str, Any], results: Sequence[Measured]) -> list[str]:
    """Who loaded which server from where, and how often."""
    server, machine, first = environment["server"], environment["machine"], results[0]
    called = f" ({server['server']})" if server["server"] else ""
    where = "on the same machine" if server["local"] else "over the network"
    tells = "as the server tells" if server["tells_usage"] else "as there are events"
    times = counted(first.repetitions, "repetition")
    return [
        f"load of {program_text(environment)} on {server['url']}{called}, {where}  ",
        f"model {server['model']}; tokens are counted {tells}  ",
        f"{machine['cpu']} ({machine['architecture']}), {machine['cores']} cores  ",
        *(stamp_line(environment) if server["local"] else []),
        f"{times} after {first.warmup} requests to warm up, temperature 0, seed {first.seed}",
        "",
        EXPLAINED,
        "",
    ]
