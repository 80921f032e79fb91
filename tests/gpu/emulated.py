#!/usr/bin/env python3
"""The extension module over an emulated GPU, which `python -m native.emulated` builds.

As a program it is `orin-llm` with that module: `python tests/gpu/emulated.py run …`. Wherever it is
installed it reads ORIN_EMULATED_SCHEDULE (see EmulatedGpu.set_schedule), ORIN_EMULATED_MEMORY_MIB
and ORIN_EMULATED_INTEGRATED=1.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEMORY_BYTES = 8 << 30  # of the device, until something else is set
OVERTAKING = 2**64 - 1
MODULE = ROOT / f"build/emulated_gpu/_native{sysconfig.get_config_var('EXT_SUFFIX')}"


class EmulatedGpu:
    """What can be set and read of the GPU of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(MODULE))
        self._library.emulated_gpu_counters.restype = ctypes.c_size_t
        self._library.emulated_gpu_free_memory.restype = ctypes.c_size_t
        self._library.emulated_gpu_check.restype = ctypes.c_char_p

    def counters(self) -> dict[str, int]:
        """What was done since the last reset; what never was is not there."""
        size = 1 + self._library.emulated_gpu_counters(None, ctypes.c_size_t(0))
        text = ctypes.create_string_buffer(size + 4096)  # others may go on counting
        self._library.emulated_gpu_counters(text, ctypes.c_size_t(len(text)))
        counted: dict[str, int] = json.loads(text.value)
        return counted

    def reset_counters(self) -> None:
        self._library.emulated_gpu_reset_counters()

    def set_schedule(self, seed: int) -> None:
        """When work runs that nobody waits for.

        0: at once; 1: as late as it may; OVERTAKING: at once where it overtakes another stream's,
        else late; any other seed: some of it, at random times.
        """
        self._library.emulated_gpu_set_schedule(ctypes.c_uint64(seed))

    def set_thread_order(self, seed: int) -> None:
        """In which order the threads of kernels run (docs/emulation.md)."""
        self._library.emulated_gpu_set_thread_order(ctypes.c_uint64(seed))

    def fail_call(self, n: int, for_ever: bool = False) -> None:
        """The n-th call of CUDA from now on fails, with `for_ever` all after it, too; 0: none does.

        What was asked for and came to pass is counted as `asked_failures`.
        """
        self._library.emulated_gpu_fail_call(ctypes.c_int64(n), int(for_ever))

    def set_pinned_limit(self, n_bytes: int) -> None:
        """How much pinned memory there may be in all; -1: as much as is asked for."""
        self._library.emulated_gpu_set_pinned_limit(ctypes.c_size_t(n_bytes))

    def set_memory(self, n_bytes: int = MEMORY_BYTES) -> None:
        """How much the device has in all; what is allocated stays."""
        self._library.emulated_gpu_set_memory(ctypes.c_size_t(n_bytes))

    def leave_free(self, n_bytes: int) -> None:
        """Set its memory to what is allocated and so much more."""
        self.set_memory()
        self.set_memory(MEMORY_BYTES - self.free_memory() + n_bytes)

    def set_integrated(self, is_integrated: bool) -> None:
        """Whether it is part of the host's chip; to be said before the first engine is made."""
        self._library.emulated_gpu_set_integrated(int(is_integrated))

    def free_memory(self) -> int:
        free: int = self._library.emulated_gpu_free_memory()
        return free

    def check(self, promise: str) -> str:
        """What is wrong with one of the promises of tests/emulated_gpu/checks.cpp, or ""."""
        wrong: bytes = self._library.emulated_gpu_check(promise.encode())
        return wrong.decode()


def install() -> None:
    """Make it this process's orin_llm._native, which nothing may have loaded yet."""
    name = "orin_llm._native"
    assert name not in sys.modules, f"{name} is loaded already: install the emulated one before"
    if not MODULE.exists():
        sys.exit(f"{MODULE} is not built: PYTHONPATH=scripts python -m native.emulated")
    import orin_llm

    spec = importlib.util.spec_from_file_location(name, MODULE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    orin_llm._native = module  # type: ignore[attr-defined]
    gpu = EmulatedGpu()
    gpu.set_schedule(int(os.environ.get("ORIN_EMULATED_SCHEDULE", "1")))
    gpu.set_integrated(os.environ.get("ORIN_EMULATED_INTEGRATED") == "1")
    if memory_mib := os.environ.get("ORIN_EMULATED_MEMORY_MIB"):
        gpu.set_memory(int(memory_mib) << 20)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    install()
    from orin_llm.cli.entry import start

    start()
