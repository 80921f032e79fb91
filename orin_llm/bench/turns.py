"""Contenders that take turns, so that a machine which changes meanwhile favours none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from orin_llm.errors import UsageError

Work_contra = TypeVar("Work_contra", contravariant=True)
Record_co = TypeVar("Record_co", covariant=True)
Work = TypeVar("Work")
Record = TypeVar("Record")

Say = Callable[[str], None]


class Contender(Protocol[Work_contra, Record_co]):
    """Whoever can do some work, and give a record of it."""

    @property
    def settings(self) -> dict[str, object]:
        """`name` first."""

    def run(self, work: Work_contra, /) -> Record_co: ...


class CutShort(KeyboardInterrupt):
    """Ctrl-C came when every contender had records.

    Attributes:
        records: of each contender, as many as all of them have.
    """

    def __init__(self, records: list[list[Any]]) -> None:
        super().__init__()
        self.records = records


def require_rounds(repetitions: int, warmup: int, warmed_by: str) -> None:
    """UsageError where nothing would be measured. `warmed_by`: what the warm-up counts."""
    if repetitions < 1:
        raise UsageError(f"{repetitions} repetitions: at least one is needed")
    if warmup < 0:
        raise UsageError(f"{warmup} {warmed_by}: expected 0 or more")


def alternate(
    contenders: Sequence[Contender[Work, Record]],
    work: Work,
    warmup: int,
    repetitions: int,
    say: Say,
    before: Callable[[], None] = lambda: None,
) -> list[list[Record]]:
    """The records of each contender. They take turns; every other round goes backwards.

    Args:
        say: told before each run what it is, in one line.
        before: called before each run.

    Raises:
        CutShort: instead of KeyboardInterrupt, where there is something to sum up.
    """
    records: list[list[Record]] = [[] for _ in contenders]
    try:
        for number in range(warmup + repetitions):
            order = list(zip(contenders, records, strict=True))
            counted = number - warmup + 1
            what = f"{counted}/{repetitions}" if counted > 0 else "warm-up"
            for contender, its_records in order if number % 2 == 0 else reversed(order):
                before()
                say(f"{what}: {contender.settings['name']}")
                record = contender.run(work)
                if counted > 0:
                    its_records.append(record)
    except KeyboardInterrupt:
        rounds = min(map(len, records))
        if rounds == 0:
            raise
        raise CutShort([its_records[:rounds] for its_records in records]) from None
    return records
