"""Sensors read while the processor keeps the memory busy: clocks at rest tell little."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from orin_llm.device.reading import Reading
from orin_llm.host.memory import read_memory

_INTERVAL_S = 0.1
_MOST_CORE_BYTES = 64 << 20  # for a source and a target; all cores' together exceed any cache
_LEAST_CORE_BYTES = 8 << 20
_MEMORY_SHARE = 16  # of what is available, one part


@dataclass(frozen=True)
class UnderLoad:
    """What was seen under load.

    Attributes:
        readings: the oldest first; at least one.
        copied_gb_s: bytes read and written each second by all cores; None where too little
            memory is available to make a load.
    """

    readings: tuple[Reading, ...]
    copied_gb_s: float | None


def measure_under_load(read: Callable[[], Reading], seconds: float = 1.5) -> UnderLoad:
    """Read sensors each 100 ms while all cores that the process may use copy memory.

    At most 64 MiB a core and a sixteenth of the available memory are used. When it ends, also by
    an error of `read` or Ctrl-C, the load has ended and its memory is given back.
    """
    cores = len(os.sched_getaffinity(0))
    core_bytes = min(_MOST_CORE_BYTES, read_memory().available // _MEMORY_SHARE // cores)
    stop = threading.Event()
    copiers = [_Copier(core_bytes // 2, stop) for _ in range(cores)]
    if core_bytes < _LEAST_CORE_BYTES:
        copiers = []
    readings: list[Reading] = []
    try:
        for copier in copiers:
            copier.start()
        end = time.monotonic() + seconds
        while not readings or time.monotonic() + _INTERVAL_S <= end:
            time.sleep(_INTERVAL_S)
            readings.append(read())
    finally:
        stop.set()  # before anything else, so that a second Ctrl-C leaves none running
        for copier in copiers:
            if copier.is_alive():  # an error may have come before it was started
                copier.join()
    rates = [copier.gb_s for copier in copiers if copier.gb_s is not None]
    return UnderLoad(tuple(readings), sum(rates) if rates else None)


class _Copier(threading.Thread):
    """Copies one buffer to another until told to stop; numpy lets other threads run meanwhile."""

    def __init__(self, size: int, stop: threading.Event) -> None:
        super().__init__(name="memory load", daemon=True)
        self.gb_s: float | None = None
        self._size, self._must_end = size, stop

    def run(self) -> None:
        # Only this function holds the buffers: a caller's error would keep them with its frames.
        try:
            source = np.ones(self._size, np.uint8)
            target = source.copy()
        except MemoryError:
            return
        copies, start, ended = 0, time.perf_counter(), False
        while not ended:  # one copy at least, however late this thread gets its turn
            np.copyto(target, source)
            copies += 1
            ended = self._must_end.is_set()
        self.gb_s = 2 * self._size * copies / (time.perf_counter() - start) / 1e9
