"""Readings that every Linux has: load and clock of each core, memory, swap."""

from __future__ import annotations

import time
from pathlib import Path

from orin_llm.device.nodes import CPU, cpu_list, read_int, read_text
from orin_llm.device.reading import Core, Reading, mean
from orin_llm.device.source import SourceUnavailable
from orin_llm.host.memory import Memory, read_memory

_WINDOW_MS = 200  # /proc/stat counts ticks of 10 ms: over less, a load would be 0 or 100 %
_IDLE, _IOWAIT = 3, 4  # columns of /proc/stat
_COLUMNS = 8  # those behind count time that is also in user and nice


class Procfs:
    """The source `procfs`. A load is that of the last window of 200 ms or more between readings."""

    name = "procfs"

    def __init__(self, root: Path = Path("/")) -> None:
        """Take a first look, from which loads are counted.

        Raises:
            SourceUnavailable: there is no /proc.
        """
        self._root = root
        self._ticks: dict[int, tuple[int, int]] = {}
        self._counted_ms = float("-inf")
        self._percents: dict[int, float] = {}
        self.problem = ""
        if self.read().sources == ():
            raise SourceUnavailable(f"{root / 'proc'} cannot be read")

    def read(self) -> Reading:
        """Loads, clocks and memory now."""
        now_ms = time.monotonic() * 1000
        cores = self._cores(now_ms)
        memory = self._memory()
        if not cores and memory is None:
            self.problem = f"{self._root / 'proc'} cannot be read"
            return Reading(now_ms)
        self.problem = ""
        if memory is None:
            return Reading(now_ms, (self.name,), cores, mean(core.percent for core in cores))
        return Reading(
            at_ms=now_ms,
            sources=(self.name,),
            cores=cores,
            cpu_percent=mean(core.percent for core in cores),
            ram_used_bytes=memory.total - memory.available,
            ram_total_bytes=memory.total,
            swap_used_bytes=memory.swap_total - memory.swap_free,
            swap_total_bytes=memory.swap_total,
            gpu_memory_used_bytes=memory.gpu_used,
        )

    def _memory(self) -> Memory | None:
        try:
            memory = read_memory(self._root)
        except ValueError:  # not the text that a kernel writes
            return None
        return memory if memory.total > 0 else None

    def close(self) -> None:
        """Nothing is held."""

    def _cores(self, now_ms: float) -> tuple[Core, ...]:
        now = _ticks(self._root)
        if now_ms - self._counted_ms >= _WINDOW_MS:
            self._percents = {
                number: percent
                for number, ticks in now.items()
                if (percent := _percent(self._ticks.get(number), ticks)) is not None
            }
            self._ticks, self._counted_ms = now, now_ms
        folder = self._root / CPU
        present = cpu_list(read_text(folder / "present")) or tuple(sorted(now))
        cores = []
        for number in present:
            khz = read_int(folder / f"cpu{number}/cpufreq/scaling_cur_freq")
            mhz = None if khz is None else khz / 1000
            core = Core(True, self._percents.get(number), mhz)
            cores.append(core if number in now else Core(False))
        return tuple(cores) if now else ()


def _ticks(root: Path) -> dict[int, tuple[int, int]]:
    """(busy, all) clock ticks of each core that is on, since it was."""
    try:
        lines = (root / "proc/stat").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, *columns = line.split() or [""]
        number = name.removeprefix("cpu")
        if name == number or not number.isdecimal() or len(columns) <= _IOWAIT:
            continue
        if all(column.isdecimal() and len(column) < 20 for column in columns[:_COLUMNS]):
            ticks = [int(column) for column in columns[:_COLUMNS]]
            found[int(number)] = (sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT], sum(ticks))
    return found


def _percent(before: tuple[int, int] | None, now: tuple[int, int]) -> float | None:
    """None as long as no tick has passed."""
    if before is None or now[1] <= before[1]:
        return None
    return min(100.0, max(0.0, 100 * (now[0] - before[0]) / (now[1] - before[1])))
