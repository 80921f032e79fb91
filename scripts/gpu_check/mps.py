"""The board's proxy: a part of a larger GPU with as many multiprocessors as the board has."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from checking.steps import StepFailed

MULTIPROCESSORS = 16  # of an AGX Orin 64GB
_CONTROL = "nvidia-cuda-mps-control"
_TRIES = 4  # percentages above and below the computed one
_TIMEOUT_S = 60
PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


@contextmanager
def mps_server() -> Iterator[dict[str, str]]:
    """A server of our own; the variables by which programs find it.

    Raises:
        StepFailed: there is no MPS, or it does not start.
    """
    if shutil.which(_CONTROL) is None:
        raise StepFailed(
            f"no MPS: {_CONTROL} is not on PATH (it comes with NVIDIA's driver, not with CUDA);"
            " in a container it has to be mapped in"
        )
    with tempfile.TemporaryDirectory(prefix="orin-mps-") as folder:
        variables = {
            "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe",
            "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log",
        }
        for path in variables.values():
            os.mkdir(path)
        environ = {**os.environ, **variables}
        try:
            _control(["-d"], "", environ)
            yield variables
        finally:
            _control([], "quit\n", environ, check=False)


def _control(
    arguments: list[str], text: str, environ: dict[str, str], *, check: bool = True
) -> None:
    # The daemon keeps what it inherits: its output goes to a file, or who reads it waits for ever.
    with tempfile.TemporaryFile() as said:
        try:
            status = subprocess.run(
                [_CONTROL, *arguments],
                input=text.encode(),
                stdout=said,
                stderr=said,
                env=environ,
                timeout=_TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = -1
        said.seek(0)
        words = said.read().decode(errors="replace").strip()
    if check and status != 0:
        raise StepFailed(f"MPS does not start: {_CONTROL} {' '.join(arguments)}: {words or status}")


def find_percentage(whole: int, multiprocessors_at: Callable[[int], int]) -> tuple[int, int]:
    """The percentage that leaves 16 multiprocessors of `whole`, and how many it leaves.

    Computed first; then asked of the device itself, for a GPU gives its multiprocessors out in
    groups. Where none leaves 16 the nearest is taken.

    Raises:
        StepFailed: the GPU has no more than 16, or MPS confines nothing.
    """
    if whole <= MULTIPROCESSORS:
        raise StepFailed(f"the GPU has {whole} multiprocessors: not more than the board")
    computed = math.ceil(100 * MULTIPROCESSORS / whole)
    seen: dict[int, int] = {}
    for distance in range(_TRIES + 1):
        for percent in dict.fromkeys((computed + distance, computed - distance)):
            if 1 <= percent <= 100:
                seen[percent] = multiprocessors_at(percent)
                if seen[percent] == MULTIPROCESSORS:
                    return percent, MULTIPROCESSORS
    percent = min(seen, key=lambda p: abs(seen[p] - MULTIPROCESSORS))
    if seen[percent] >= whole:
        raise StepFailed(f"MPS confines nothing: {percent} % leaves {seen[percent]} of {whole}")
    return percent, seen[percent]
