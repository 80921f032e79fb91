"""For tests of loading: models that are large or not sound, cold files, loads that are stopped."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf_bytes import Shape, Tensor, tiny_llama

from orin_llm.errors import OrinError
from orin_llm.host import page_cache

# 2 layers × 3 matrices of 64 × 32768 floats: 48 MiB, more than a load reads ahead.
LARGE = Shape(n_ff=32768)
LARGE_BYTES = 48 << 20  # at least

MADV_POPULATE_READ = 22  # Python's mmap does not name it


def write_large_model(path: Path) -> Path:
    """A model that loads and runs; the data of its large matrices are holes in the file."""
    layers = range(LARGE.n_layer)
    names = [f"blk.{n}.ffn_{part}.weight" for n in layers for part in ("gate", "up", "down")]
    sizes = {"down": (LARGE.n_ff, LARGE.n_embd)}
    other = (LARGE.n_embd, LARGE.n_ff)
    image = tiny_llama(
        shape=LARGE,
        tensors={name: Tensor(name, sizes.get(name[10:14], other)) for name in names},
    )
    assert len(image.data) > LARGE_BYTES
    with path.open("wb") as file:
        os.truncate(path, len(image.data))
        data = np.frombuffer(image.data, np.uint8)
        for begin in range(0, len(data), 1 << 20):  # zeros stay holes
            if data[begin : begin + (1 << 20)].any():
                file.seek(begin)
                file.write(image.data[begin : begin + (1 << 20)])
    return path


def make_cold(path: Path) -> None:
    """Take a file out of the page cache; the test is skipped where it lies in memory."""
    try:
        page_cache.drop(path)
    except OrinError:
        pytest.skip("the temporary folder lies in memory")


def thread_ids() -> set[str]:
    """Of this process, by number. One that was joined may be there a moment longer."""
    return set(os.listdir("/proc/self/task"))


def needs_populating(folder: Path) -> None:
    """Skip where memory that is asked for in advance is not read: an emulator says it was."""
    path = folder / "shrinks"
    path.write_bytes(bytes(mmap.PAGESIZE))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        os.truncate(path, 0)
        try:
            memory.madvise(MADV_POPULATE_READ)
        except OSError:
            return
    pytest.skip("this system says of memory that it was read, and has not read it")


class Stop(Exception):
    """What progress raises to stop a load."""


def stopped_loads(load: Callable[[Callable[[float], None]], object]) -> Iterator[int]:
    """Loads that are stopped the first time they tell progress, the second time, and so on.

    Yields after each how often it had told progress before. As often as there is progress: a slow
    load also says that there is none.
    """
    times: list[float] = []
    load(times.append)
    for n in range(len(set(times))):
        heard: list[float] = []

        def stop(fraction: float, heard: list[float] = heard, n: int = n) -> None:
            if len(heard) == n:
                raise Stop
            heard.append(fraction)

        with pytest.raises(Stop):
            load(stop)
        yield n


def break_value(path: Path, at: int) -> None:
    """Put a NaN (of F32) there."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(np.float32(np.nan).tobytes())
