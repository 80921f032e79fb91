"""Readings from the service of jetson-stats, where the user has installed it. Never required.

The service runs as root: through it the memory's load is read without rights.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from orin_llm.device.modules import Module
from orin_llm.device.optional import one_line, optional_module
from orin_llm.device.reading import Core, Reading, bandwidth_gb_s, mean, total_power_w
from orin_llm.device.source import SourceUnavailable

_RETRY_MS = 5000
_ANSWER_S = 5.0  # the client waits forever for a service that hangs
_LEAVE_S = 1.0
_STALE_INTERVALS = 3
_STALE_MS = 1000  # on top: a busy machine may be late
_KIB = 1024


class Jtop:
    """The source `jtop`."""

    name = "jtop"

    def __init__(self, interval_ms: float, module: Module | None = None) -> None:
        """Attach to the service.

        Raises:
            SourceUnavailable: jetson-stats is not installed, or its service does not let us in.
        """
        package = optional_module("jtop", "jetson-stats")
        if not hasattr(package, "jtop"):
            raise SourceUnavailable("jetson-stats is not installed")
        logging.getLogger("jtop").addHandler(logging.NullHandler())  # or warnings go to stderr
        self._jtop = package.jtop
        self._interval_s = max(0.1, interval_ms / 1000)
        self._module = module
        self._lock = threading.Lock()
        self._closed = False
        self._client: Any = None
        self._told: tuple[Any, float] = (None, 0.0)  # the service's time, and ours when it changed
        self.problem = ""
        self._attach()
        self._attaching.join(_ANSWER_S)
        if self._client is None:
            self.close()
            raise SourceUnavailable(self.problem)

    def read(self) -> Reading:
        """What the service last told."""
        now_ms = time.monotonic() * 1000
        client = self._client
        if client is None:
            if not self._attaching.is_alive() and now_ms - self._tried_ms > _RETRY_MS:
                self._attach()
            return Reading(now_ms)
        try:
            # Asked without waiting, it says whether the service still answers.
            if not client.ok(spin=True):
                raise ConnectionError("the service has ended")
            if self._is_stale(client, now_ms):
                raise ConnectionError("the service tells nothing new")
            return self._reading(client, now_ms)
        except Exception as error:  # an optional package of any version: no error of it is ours
            self._detach()
            self.problem = f"jtop: {one_line(error)}"
            return Reading(now_ms)

    def close(self) -> None:
        """Leave the service."""
        with self._lock:
            self._closed = True
        self._detach()

    def _attach(self) -> None:
        """In a thread of its own, since the client may wait for long."""
        self._tried_ms = time.monotonic() * 1000
        self.problem = self.problem or "jtop: the service does not answer"
        self._attaching = threading.Thread(target=self._start, name="jtop-start", daemon=True)
        self._attaching.start()

    def _start(self) -> None:
        try:
            client = self._jtop(interval=self._interval_s)
            client.start()
        except Exception as error:  # such as a service of another version, or one not running
            self.problem = f"jtop: {one_line(error)}"
            return
        with self._lock:
            if not self._closed:
                self._told = (None, 0.0)
                self._client, self.problem = client, ""
                return
        _leave(client)

    def _detach(self) -> None:
        client, self._client = self._client, None
        if client is not None:  # it waits for what it looks up about the board
            leaving = threading.Thread(target=_leave, args=(client,), daemon=True)
            leaving.start()
            leaving.join(_LEAVE_S)

    def _is_stale(self, client: Any, now_ms: float) -> bool:
        """A service that hangs leaves the last values to be read for ever."""
        told = client.uptime
        if told != self._told[0]:
            self._told = (told, now_ms)
        limit_ms = _STALE_INTERVALS * 1000 * float(client.interval) + _STALE_MS
        return now_ms - self._told[1] > limit_ms

    def _reading(self, client: Any, now_ms: float) -> Reading:
        gpu: Mapping[str, Any] = next((fields for _, fields in client.gpu.items()), {})
        if gpu.get("power_control") == "nvml":  # other units, and 0 for what is not known
            gpu = {}
        emc = _part(client.memory, "EMC")
        if _number(emc, "cur") == 1:  # its clock could not be read: its load is of nothing
            emc = {}
        emc_percent, emc_mhz = _number(emc, "val"), _number(emc, "cur", scale=1e-3)
        ram, swap = _part(client.memory, "RAM"), _part(client.memory, "SWAP")
        cores = tuple(_core(core) for core in client.cpu.get("cpu", ()))
        rails = {
            name: power
            for name, rail in client.power.get("rail", {}).items()
            if (power := _number(rail, "power", scale=1e-3)) is not None
        }
        # It takes VDD_IN out of the rails and calls it the total; of others it adds VDDQ twice.
        total = client.power.get("tot", {})
        if total.get("name") == "VDD_IN" and (power := _number(total, "power", scale=1e-3)):
            rails["VDD_IN"] = power
        return Reading(
            at_ms=now_ms,
            sources=(self.name,),
            cores=cores,
            cpu_percent=mean(core.percent for core in cores),
            gpu_percent=_number(gpu.get("status", {}), "load"),
            gpu_mhz=_number(gpu.get("freq", {}), "cur", scale=1e-3),
            emc_percent=emc_percent,
            emc_mhz=emc_mhz,
            bandwidth_gb_s=bandwidth_gb_s(emc_percent, emc_mhz, self._module),
            ram_used_bytes=_bytes(ram, "used"),
            ram_total_bytes=_bytes(ram, "tot"),
            swap_used_bytes=_bytes(swap, "used"),
            swap_total_bytes=_bytes(swap, "tot"),
            gpu_memory_used_bytes=_bytes(ram, "shared") or None,  # 0: it does not know
            temperatures_c={
                name.lower(): value
                for name, sensor in client.temperature.items()
                if sensor.get("online", True) and (value := _number(sensor, "temp")) is not None
            },
            rails_w=rails,
            power_w=total_power_w(rails),
        )


def _core(core: Mapping[str, Any]) -> Core:
    if not core.get("online", False):
        return Core(False)
    idle = _number(core, "idle")
    if idle == 0 and not any(_number(core, name) for name in ("user", "nice", "system")):
        idle = None  # no time has passed
    return Core(
        True, None if idle is None else 100 - idle, _number(core.get("freq", {}), "cur", 1e-3)
    )


def _leave(client: Any) -> None:
    with suppress(Exception):
        client.close()


def _part(fields: Any, name: str) -> Mapping[str, Any]:
    """Of what is like a dictionary, and that alone."""
    try:
        part: Mapping[str, Any] = fields[name]
    except KeyError:
        return {}
    return part


def _number(fields: Mapping[str, Any], name: str, scale: float = 1.0) -> float | None:
    value = fields.get(name)
    return value * scale if isinstance(value, (int, float)) else None


def _bytes(fields: Mapping[str, Any], name: str) -> int | None:
    kib = _number(fields, name)
    return None if kib is None else int(kib * _KIB)
