"""Looking at the machine: everything that the checks need, read or tried once."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orin_llm.device.board import Board, read_board
from orin_llm.device.budget import MemoryBudget, choose_budget
from orin_llm.device.build import Build, build_info
from orin_llm.device.caps import read_caps
from orin_llm.device.clocks import emc_pinned
from orin_llm.device.gpu import Gpus, find_gpus
from orin_llm.device.nodes import CPU, cpu_list, read_int, read_text
from orin_llm.device.power_modes import current_power_mode, read_power_modes, recorded_power_mode
from orin_llm.device.reading import Reading
from orin_llm.device.setup.snapshot import load_snapshot
from orin_llm.device.setup.system import System as Setup
from orin_llm.device.sources import Sensors, open_sensors
from orin_llm.doctor.build import is_loadable
from orin_llm.doctor.machine import Machine, Model, Power, Swap, System
from orin_llm.errors import DeviceUnavailable, ModelFileError, OrinError
from orin_llm.extension import extension_file
from orin_llm.host.cpu import read_cpu
from orin_llm.host.memory import read_memory
from orin_llm.host.programs import ask
from orin_llm.models.names import DEFAULT_MODEL

if TYPE_CHECKING:
    from orin_llm.device.probes.cuda import CudaProbe
    from orin_llm.device.probes.load import UnderLoad

Report = Callable[[str], None]  # is told what is done next

_INTERVAL_MS = 100
_SYSTEMCTL_S = 10
_FIRST_LINE_S = 1.5  # tegrastats takes a moment to print
_FAN_PROFILE = re.compile(r"FAN_PROFILE[:\s]+(\w+)")
_FAN, _FAN_STATUS = "/etc/nvfancontrol.conf", "/var/lib/nvfancontrol/status"
_FAN_DEFAULT = re.compile(r"(?m)^\s*FAN_DEFAULT_PROFILE\s+(\S+)")
# Names of processes, of which the kernel keeps 15 characters.
_DESKTOPS = frozenset(
    ("Xorg", "Xwayland", "gnome-shell", "gdm3", "lightdm", "sddm", "plasmashell", "weston")
)


def look(
    root: Path,
    model: str | None,
    ctx: int,
    *,
    load: bool = True,
    environ: Mapping[str, str] = os.environ,
    report: Report = lambda step: None,
) -> Machine:
    """Read the machine; some seconds. `root` stands for `/`.

    Args:
        model: what it is called in the store, or its file; None: the default one, if it is there.
        ctx: tokens of a sequence; 0: the model's own, at most 8192.
        load: put the memory and the disk under load.

    Raises:
        UsageError, ModelFileError: there is no such model.
    """
    path = _model_path(model)
    report("asking the build")
    build, cpu = build_info(), read_cpu(root)
    board, caps, gpus = read_board(root), read_caps(root), find_gpus(root, environ)
    memory = read_memory(root)
    report("reading the sensors")
    at_rest, under_load, problems = _sensors(board, root, load, report)
    cuda, code = _cuda(build, board, gpus, root, report)
    found = None
    if path is not None and is_loadable(build, cpu):  # the extension reads the header
        budget = choose_budget(build.cuda, gpus, memory)
        name = model or DEFAULT_MODEL
        found = _model(path.name if os.sep in name else name, path, ctx, budget, root, load, report)
    return Machine(
        board=board,
        build=build,
        cpu=cpu,
        gpus=gpus,
        memory=memory,
        caps=caps,
        program=str(Path(sys.executable).with_name("orin-llm")),
        is_root=os.geteuid() == 0,
        environ=environ,
        power=_power(root) if board.is_jetson else Power(),
        system=_system(root, board),
        at_rest=at_rest,
        under_load=under_load,
        sensor_problems=problems,
        cuda=cuda,
        binary_code=code,
        model=found,
    )


def _sensors(
    board: Board, root: Path, load: bool, report: Report
) -> tuple[Reading, UnderLoad | None, dict[str, str]]:
    """The reading at rest, those under load (on a Jetson), and what could not be read."""
    try:
        sensors = open_sensors(board, _INTERVAL_MS, root=root)
    except DeviceUnavailable:
        return Reading(0), None, {}
    with sensors:
        at_rest = _first_reading(sensors)
        under_load = None
        if load and board.is_jetson:
            from orin_llm.device.probes.load import measure_under_load

            report("putting the memory under load")
            under_load = measure_under_load(sensors.read)
        return at_rest, under_load, {**sensors.unavailable, **sensors.problems}


def _first_reading(sensors: Sensors) -> Reading:
    """With what a program that was just started has to tell, if it is quick."""
    end = time.monotonic() + _FIRST_LINE_S
    reading = sensors.read()
    names = {source.name for source in sensors.sources}
    while "tegrastats" in names - set(reading.sources) and time.monotonic() < end:
        time.sleep(0.05)
        reading = sensors.read()
    return reading


def _cuda(
    build: Build, board: Board, gpus: Gpus, root: Path, report: Report
) -> tuple[CudaProbe | None, tuple[str, ...] | None]:
    """What CUDA can do, and what code the extension has; nothing where no GPU could be used."""
    if not (build.cuda or gpus.usable or board.is_jetson):
        return None, None
    from orin_llm.device.probes.cubins import elf_architectures
    from orin_llm.device.probes.cuda import probe_cuda

    report("trying CUDA")
    module = extension_file() if build.cuda else None
    return probe_cuda(root), elf_architectures(module, root) if module else None


def _power(root: Path) -> Power:
    try:
        modes = read_power_modes(root)
    except DeviceUnavailable:
        return Power()
    by_setup = False
    with suppress(OrinError, OSError):  # a damaged record is for the setup to tell of
        by_setup = "power-mode" in load_snapshot(Setup(root)).before
    return Power(
        modes=modes,
        now=current_power_mode(modes, root),
        at_boot=recorded_power_mode(modes, root),
        by_setup=by_setup,
    )


def _system(root: Path, board: Board) -> System:
    """On a PC only what concerns it."""
    nvcc = root / "usr/local/cuda/bin/nvcc"
    where = f"/{nvcc.relative_to(root)}" if nvcc.exists() else ""
    if not board.is_jetson:
        return System(nvcc=where)
    online = cpu_list(read_text(root / CPU / "online"))
    clocks = [read_int(root / CPU / f"cpu{n}/cpufreq/cpuinfo_max_freq") for n in online]
    known = [khz / 1000 for khz in clocks if khz is not None]
    return System(
        swaps=_swaps(root),
        desktop=_desktop(root),
        fan_profile=_fan_profile(root),
        cpu_hardware_mhz=min(known, default=None),
        emc_pinned=emc_pinned(root),
        nvcc=where,
    )


def _swaps(root: Path) -> tuple[Swap, ...] | None:
    text = read_text(root / "proc/swaps")
    if text is None:
        return None
    found = []
    for line in text.splitlines()[1:]:
        columns = line.split()  # name, type, size and used in KiB, priority
        if len(columns) >= 4 and columns[2].isdecimal() and columns[3].isdecimal():
            found.append(Swap(columns[0], int(columns[2]) << 10, int(columns[3]) << 10))
    return tuple(found)


def _desktop(root: Path) -> str | None:
    """Its process, else systemd's target; "" if there is none."""
    names = {read_text(path) for path in root.glob("proc/[0-9]*/comm")} - {None}
    for name in sorted(_DESKTOPS):
        if name in names:
            return name
    try:
        told = ask(["systemctl", "is-active", "graphical.target"], _SYSTEMCTL_S).stdout.strip()
    except OSError:
        return "" if names else None
    return "graphical.target" if told == "active" else ""


def _fan_profile(root: Path) -> str | None:
    """What nvfancontrol recorded overrules its configuration; with several fans, the quietest."""
    profiles: list[str] = []
    with suppress(OSError):
        profiles = _FAN_PROFILE.findall(Setup(root).read(_FAN_STATUS) or "")
        profiles = profiles or _FAN_DEFAULT.findall(Setup(root).read(_FAN) or "")
    return "quiet" if "quiet" in profiles else next(iter(profiles), None)


def _model_path(model: str | None) -> Path | None:
    from orin_llm.models.store import Store, resolve

    if model is not None:
        return resolve(model)
    with suppress(OrinError):
        return Store().path(DEFAULT_MODEL)
    return None


def _model(
    name: str,
    path: Path,
    ctx: int,
    budget: MemoryBudget,
    root: Path,
    load: bool,
    report: Report,
) -> Model:
    from orin_llm.gguf.header import read_model_header
    from orin_llm.models.fit import fit

    report(f"looking at {name}")
    try:
        fitted = fit(read_model_header(path), budget, ctx=ctx)
    except ModelFileError as error:
        return Model(name, problem=str(error))
    if not load:
        return Model(name, fit=fitted)
    from orin_llm.device.probes.disk import read_speed

    report(f"reading {name} from the disk")
    try:
        return Model(name, fit=fitted, drive=_drive(path, root), disk=read_speed(path))
    except OrinError as error:
        return Model(name, fit=fitted, disk_problem=str(error))


def _drive(path: Path, root: Path) -> str:
    """What the file lies on, by the name of its block device."""
    number = os.stat(path).st_dev
    device = (root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
    return "nvme" if device.startswith("nvme") else "mmc" if device.startswith("mmcblk") else ""
