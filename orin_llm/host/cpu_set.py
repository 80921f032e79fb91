"""Sets of processor cores, as people and the kernel write them: `0-3,6`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from orin_llm.errors import UsageError
from orin_llm.host.units import is_count

MAX_CORES = 1024  # that the C library has room for in a set


def parse_cores(text: str) -> frozenset[int]:
    """The cores of a list such as `0-3,6`; none for "".

    Raises:
        UsageError: it is no such list.
    """
    cores: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        first, dash, last = (side.strip() for side in part.partition("-"))
        last = last if dash else first
        if not (is_count(first) and is_count(last) and int(first) <= int(last) < MAX_CORES):
            raise UsageError(
                f"cpus is {text!r}: expected numbers of cores below {MAX_CORES} and ranges of "
                "them, such as 0-3,6"
            )
        cores.update(range(int(first), int(last) + 1))
    return frozenset(cores)


def cores_text(cores: Iterable[int]) -> str:
    """What `parse_cores` reads, in its shortest form."""
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def require_cores(cores: frozenset[int], allowed: frozenset[int] | None = None) -> None:
    """Check that this process may run on all of them.

    Args:
        cores: as `parse_cores` gave them.
        allowed: stands for the affinity of the calling thread.

    Raises:
        UsageError: naming those that do not exist, are switched off, or are not allowed.
    """
    allowed = frozenset(os.sched_getaffinity(0)) if allowed is None else allowed
    if more := cores - allowed:
        noun = "core" if len(more) == 1 else "cores"
        raise UsageError(
            f"cpus names {noun} {cores_text(more)}, which this process may not use: it may use "
            f"{cores_text(allowed)} (others do not exist, are switched off by the power mode, or "
            "are kept from it by taskset or a container)"
        )
