"""Calling kernels from tests, in a process of their own: in the emulation, or on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from kernel_build import ENVIRONMENT, TESTS


class KernelFailed(AssertionError):
    """A kernel raised, or a sanitizer ended its process; the message is what it said."""


class Kernels:
    """The kernels of a module: `kernels.affine(x=…)`.

    A process that a sanitizer has ended is started again for the next call.
    """

    def __init__(self, module: Path, preload: tuple[str, ...] = ()) -> None:
        self._module, self._preload = module, preload
        self._process: subprocess.Popen[str] | None = None
        self._connection: Connection | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)  # what libraries look for in any object
        return lambda **arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        if self._connection is None:
            self._start()
        assert self._connection is not None and self._process is not None
        try:
            self._connection.send((name, arguments))
            well, result = self._connection.recv()
        except (EOFError, ConnectionError):
            said = self._process.communicate()[1]
            self._connection.close()
            self._connection = None
            raise KernelFailed(said) from None
        if not well:
            raise KernelFailed(result)
        return result

    def _start(self) -> None:
        environment = {**os.environ, **ENVIRONMENT, "LD_PRELOAD": ":".join(self._preload)}
        with (
            tempfile.TemporaryDirectory() as folder,
            Listener(f"{folder}/socket", "AF_UNIX") as there,
        ):
            command = [sys.executable, str(TESTS / "kernels/worker.py"), str(self._module)]
            self._process = subprocess.Popen(
                [*command, str(there.address)], env=environment, stderr=subprocess.PIPE, text=True
            )
            self._connection = there.accept()

    def close(self) -> None:
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.communicate()
