"""Power modes: what /etc/nvpmodel.conf defines, looked up by name, and which one is set.

The numbers of the modes differ between modules (3 is 50 W on one and 40 W on another): a mode is
only ever meant by its name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orin_llm.device.caps import cap_mhz, sms_left
from orin_llm.device.nodes import read_text
from orin_llm.errors import DeviceUnavailable, UsageError
from orin_llm.host.programs import ask

_MODE = re.compile(r"<\s*POWER_MODEL\s+ID=([0-9]{1,6})\s+NAME=(\S+?)\s*>")
_DEFAULT = re.compile(r"<\s*PM_CONFIG\s+DEFAULT=([0-9]{1,6})\s*>")
_WATTS = re.compile(r"(?:MODE_)?([0-9]{1,6})W", re.IGNORECASE)
_STATUS = re.compile(r"pmode:([0-9]{1,6})")
_QUERY_TIMEOUT_S = 10


@dataclass(frozen=True)
class PowerMode:
    """One mode; a cap that it does not set is None.

    Attributes:
        budget_w: of the name; MAXN has none.
        cpu_cores: that stay on.
        cpu_max_mhz: of the slowest cluster that is on.
        tpc_mask: a bit for each TPC of the GPU that is off. Another mask may need a reboot.
    """

    id: int
    name: str
    budget_w: int | None
    cpu_cores: int | None
    cpu_max_mhz: float | None
    gpu_max_mhz: float | None
    tpc_mask: int | None
    emc_max_mhz: float | None

    @property
    def sm_count(self) -> int | None:
        """SMs that the mask leaves on; None where the mode has no mask."""
        return None if self.tpc_mask is None else sms_left(self.tpc_mask)

    def to_json(self) -> dict[str, Any]:
        """All fields, and `sm_count`."""
        return {**asdict(self), "sm_count": self.sm_count}


@dataclass(frozen=True)
class PowerModes:
    """The modes of a board, and the one that is set when nobody has chosen; None: not defined."""

    modes: tuple[PowerMode, ...]
    default: PowerMode | None

    def named(self, name: str) -> PowerMode:
        """The mode of a name; `30W` and `mode_30w` are MODE_30W.

        Raises:
            UsageError: there is none.
        """
        for mode in self.modes:
            if _plain(mode.name) == _plain(name):
                return mode
        names = ", ".join(mode.name for mode in self.modes) or "none"
        raise UsageError(f"this board has no power mode {name!r}. It has: {names}")

    def with_id(self, number: int) -> PowerMode | None:
        """The mode of a number, as nvpmodel and its status file tell it."""
        return next((mode for mode in self.modes if mode.id == number), None)


def read_power_modes(root: Path = Path("/")) -> PowerModes:
    """The modes of this board; `root` stands for `/`.

    Raises:
        DeviceUnavailable: there is no /etc/nvpmodel.conf, or no mode in it.
    """
    path = root / "etc/nvpmodel.conf"
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise DeviceUnavailable(
            f"the power modes cannot be read from {path} ({error.strerror}): only a Jetson has them"
        ) from None
    modes = parse_power_modes(text)
    if not modes.modes:
        raise DeviceUnavailable(
            f"no `< POWER_MODEL ID=… NAME=… >` is in {path}: install the package "
            "nvidia-l4t-nvpmodel again"
        )
    return modes


def parse_power_modes(text: str) -> PowerModes:
    """The modes in the text of an nvpmodel.conf; lines that are not understood do nothing."""
    modes: list[PowerMode] = []
    default: int | None = None
    for head, lines in _sections(text):
        settings = [line.split() for line in lines]
        if mode := _MODE.fullmatch(head):
            modes.append(_mode(int(mode[1]), mode[2], settings))
        elif found := _DEFAULT.fullmatch(head):
            default = int(found[1])
    return PowerModes(tuple(modes), next((mode for mode in modes if mode.id == default), None))


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each `< … >` line and the lines up to the next, without comments."""
    head, body = "", list[str]()
    for line in (raw.partition("#")[0].strip() for raw in text.splitlines()):
        if line.startswith("<"):
            yield head, body
            head, body = line, []
        else:
            body.append(line)
    yield head, body


def current_power_mode(modes: PowerModes, root: Path = Path("/")) -> PowerMode | None:
    """The mode that is set: nvpmodel tells, else the file it keeps; None where neither does.

    Asking needs no rights.
    """
    return _ask_nvpmodel(modes) or recorded_power_mode(modes, root)


def _ask_nvpmodel(modes: PowerModes) -> PowerMode | None:
    program = shutil.which("nvpmodel")
    if program is None:
        return None
    try:
        done = ask([program, "-q"], _QUERY_TIMEOUT_S)
    except OSError:
        return None
    # `NV Power Mode: MODE_30W`; lines with warnings may come first.
    told = re.search(r"^NV Power Mode: *(\S+)", done.stdout, re.MULTILINE)
    if told is None:
        return None
    return next((mode for mode in modes.modes if mode.name == told[1]), None)


def recorded_power_mode(modes: PowerModes, root: Path = Path("/")) -> PowerMode | None:
    """The mode that the next boot takes, from the file that nvpmodel keeps; None without one."""
    status = _STATUS.search(read_text(root / "var/lib/nvpmodel/status") or "")
    return modes.with_id(int(status[1])) if status else None


def _mode(number: int, name: str, settings: Iterable[list[str]]) -> PowerMode:
    values = {" ".join(words[:-1]): _integer(words[-1]) for words in settings if len(words) == 3}
    cores = [value for key, value in values.items() if key.startswith("CPU_ONLINE ")]
    clocks = [
        mhz
        for key, khz in values.items()
        if re.fullmatch(r"CPU_\S+ MAX_FREQ", key) and (mhz := cap_mhz(khz and khz * 1000))
    ]
    watts = _WATTS.fullmatch(name)
    return PowerMode(
        id=number,
        name=name,
        budget_w=int(watts[1]) if watts else None,
        cpu_cores=cores.count(1) if cores else None,
        cpu_max_mhz=min(clocks, default=None),
        gpu_max_mhz=cap_mhz(values.get("GPU MAX_FREQ")),
        tpc_mask=values.get("TPC_POWER_GATING TPC_PG_MASK"),
        emc_max_mhz=cap_mhz(values.get("EMC MAX_FREQ")),
    )


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _plain(name: str) -> str:
    return name.upper().removeprefix("MODE_")
