"""The command lines that let NVIDIA's Nsight Systems (nsys) watch the run that is traced."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import DeviceUnavailable, OrinError
from orin_llm.trace.record import CAPTURE_RANGE

_PROGRAM = "nsys"
_STDERR = 2


@dataclass(frozen=True)
class Profiling:
    """What nsys is to do.

    Attributes:
        command: the program that it starts.
        stem: its files without their endings.
    """

    command: tuple[str, ...]
    stem: Path

    @property
    def profile(self) -> tuple[str, ...]:
        """Runs the command and records what is within the capture range.

        The names of our ranges are plain texts: without the variable nsys only looks at those that
        were registered. By default it shows a captured CUDA graph as one piece of work;
        `--cuda-graph-trace=node` shows its kernels.
        """
        return (
            _PROGRAM,
            "profile",
            "--trace=cuda,nvtx",
            "--sample=none",
            "--cpuctxsw=none",
            "--cuda-graph-trace=node",
            "--capture-range=nvtx",
            f"--nvtx-capture={CAPTURE_RANGE}",
            "--capture-range-end=stop",
            "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
            "--force-overwrite=true",
            f"--output={self.stem}",
            *self.command,
        )

    @property
    def export(self) -> tuple[str, ...]:
        """Makes the SQLite file of what was recorded."""
        return (
            _PROGRAM,
            "export",
            "--type=sqlite",
            "--force-overwrite=true",
            f"--output={self.sqlite}",
            str(self.report),
        )

    @property
    def report(self) -> Path:
        return Path(f"{self.stem}.nsys-rep")

    @property
    def sqlite(self) -> Path:
        return Path(f"{self.stem}.sqlite")

    @property
    def summarize(self) -> tuple[str, ...]:
        return ("orin-llm", "trace", "summarize", str(self.sqlite))


def run_profiler(profiling: Profiling) -> Path:
    """Profile and export; returns the SQLite file. What nsys and the run say goes to stderr.

    Raises:
        DeviceUnavailable: nsys is not on the PATH.
        OrinError: it failed, or made no file.
    """
    if shutil.which(_PROGRAM) is None:
        raise DeviceUnavailable(
            "nsys is not on the PATH: install Nsight Systems (on a Jetson it is part of JetPack: "
            "package nsight-systems), or take the command lines of --nsys print to where it is"
        )
    for command in (profiling.profile, profiling.export):
        _run(command)
    if not profiling.sqlite.is_file():
        raise OrinError(
            f"nsys made no {profiling.sqlite}: did the run reach its measured part, on the GPU?"
        )
    return profiling.sqlite


def _run(command: Sequence[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=_STDERR) as running:
        try:
            code = running.wait()
        except KeyboardInterrupt:  # it was told, too
            running.wait()
            raise
    if code != 0:
        raise OrinError(f"{' '.join(command[:2])} failed with exit code {code}: see above")
