"""What CUDA can do on this machine, found by trying it in a process that may die of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from orin_llm.host.memory import read_memory
from orin_llm.host.own_package import importing_environment

_TIMEOUT_S = 20
_KILL_TIMEOUT_S = 2  # a process that waits inside a driver may outlive SIGKILL
_SAID_CHARS = 200


@dataclass(frozen=True)
class CudaProbe:
    """What the first GPU that CUDA sees could do. What was not reached is "" or None.

    Attributes:
        problem: why CUDA cannot be used, in one line, or ""; what was found before stays.
        driver: the CUDA version that the driver is for, such as `12.6`.
        compute_capability: such as `8.7`.
        integrated: the GPU shares the machine's memory.
        total_bytes: the memory that CUDA says there is.
        vmm: memory could be mapped into a reserved range, as llama.cpp's pool does it.
        vmm_problem: the call that failed and CUDA's name of the error, or "".
        kv_grows: so could it into a short range, as the KV cache of an engine does it.
        kv_problem: as `vmm_problem`, of that.
        largest_bytes: the largest single block that could be had, of at most 8 GiB; it was given
            back at once.
        alloc_problem: why it is less than all that was tried, or why none was, or "".
        copy_gb_s: bytes read and written each second by copies within the GPU's memory; None
            also where memory is too short for it.
    """

    problem: str = ""
    driver: str = ""
    name: str = ""
    compute_capability: str = ""
    integrated: bool | None = None
    total_bytes: int | None = None
    vmm: bool | None = None
    vmm_problem: str = ""
    kv_grows: bool | None = None
    kv_problem: str = ""
    largest_bytes: int | None = None
    alloc_problem: str = ""
    copy_gb_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def probe_cuda(root: Path = Path("/"), timeout_s: float = _TIMEOUT_S) -> CudaProbe:
    """Try CUDA; about two seconds. `root` stands for `/` where available memory is read.

    Of memory that GPU and system share, 1 GiB stays free. A driver that crashes, or does not
    answer within `timeout_s`, is a `problem`.
    """
    with TemporaryFile() as report, TemporaryFile() as said:
        command = [sys.executable, "-m", f"{__package__}.cuda_child"]
        process = subprocess.Popen(
            [*command, str(read_memory(root).available)],
            cwd="/",  # a checkout there would be imported instead
            env=importing_environment(),
            stdin=subprocess.DEVNULL,
            stdout=report,
            stderr=said,
        )
        try:
            process.wait(timeout_s)
            end = _end(process.returncode)
        except subprocess.TimeoutExpired:
            end = f"did not answer within {timeout_s:g} s"
        finally:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_TIMEOUT_S)
        return _understand(_lines(report), end, _lines(said))


def _end(status: int) -> str:
    """How a process ended, or "" where nothing was wrong."""
    if status >= 0:
        return f"failed with exit status {status}" if status else ""
    with suppress(ValueError):
        return f"died of {signal.Signals(-status).name}"
    return f"died of signal {-status}"


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return [line.strip() for line in file.read().decode(errors="replace").splitlines()]


def _understand(report: list[str], end: str, said: list[str]) -> CudaProbe:
    found: dict[str, Any] = {}
    for line in report:
        with suppress(ValueError):  # the line in which it died
            found |= json.loads(line)
    stage = found.pop("stage", "starting")
    probe = CudaProbe(**found)
    words = [f": {line[:_SAID_CHARS]}" for line in said if line] or [""]
    # What the driver printed tells more than CUDA's name of an error: its first line says what it
    # met, the last one what ended the process.
    problem, alloc_problem = (
        text and text + words[0] for text in (probe.problem, probe.alloc_problem)
    )
    if end:
        problem = f"the CUDA probe {end} while {stage}{words[-1]}"
    return replace(probe, problem=problem, alloc_problem=alloc_problem)
