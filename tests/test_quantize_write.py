"""Writing a quantized file: progress, faults, and a model that changes meanwhile."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from load_support import break_value
from quantize_requests import model, request, wide_model
from stats_support import until

from orin_llm._native import check_gguf
from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.models import quantize_plan
from orin_llm.models.quantize import usable_threads, write
from orin_llm.models.quantize_plan import make_plan
from orin_llm.models.reporter import Progress, Reporter


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return wide_model(tmp_path)


@pytest.fixture
def many_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress after every few rows."""
    monkeypatch.setattr(quantize_plan, "_BUFFER_BYTES", 1 << 14)


class Acting(Reporter):
    """Does something once, when some of the work is done."""

    def __init__(self, action: Any) -> None:
        self.action = action
        self.seen: list[int] = []

    def progress(self, progress: Progress) -> None:
        self.seen.append(progress.done)
        if self.action is not None and progress.done > progress.total / 2:  # type: ignore[operator]
            action, self.action = self.action, None
            action()


def test_progress_counts_the_bytes_of_the_model(wide: Path, many_slabs: None) -> None:
    plan = make_plan(request(wide))
    acting = Acting(None)
    write(plan, wide.with_name("out.gguf"), reporter=acting)
    assert acting.seen == sorted(acting.seen) and len(set(acting.seen)) > 50
    assert plan.source_bytes - plan.tensors[-1].bytes <= acting.seen[-1] <= plan.source_bytes


def test_what_the_reporter_raises_ends_the_work_and_leaves_nothing(
    wide: Path, many_slabs: None
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(make_plan(request(wide)), wide.with_name("out.gguf"), reporter=Acting(interrupt))
    assert [file.name for file in wide.parent.iterdir()] == ["wide.gguf"]


CUT = """
import os, sys
print("ready", flush=True)
os.truncate(sys.argv[1], 1 << 19)
"""


def test_a_model_that_another_process_cuts_is_an_error(wide: Path, many_slabs: None) -> None:
    children = []
    waits = may_lease(wide)

    def cut() -> None:
        child = subprocess.Popen(
            [sys.executable, "-c", CUT, str(wide)], stdout=subprocess.PIPE, text=True
        )
        children.append(child)
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        if waits:  # for us, as soon as it has come to its next instruction
            until(lambda: state(child.pid) in "SZ", "its standstill, or end")
        else:
            child.wait()

    with pytest.raises(ModelFileError, match="changed while it was read"):
        write(make_plan(request(wide)), wide.with_name("out.gguf"), reporter=Acting(cut))
    with children[0]:
        assert children[0].wait(timeout=60) == 0
    assert wide.stat().st_size == 1 << 19
    assert [file.name for file in wide.parent.iterdir()] == ["wide.gguf"]


def state(pid: int) -> str:
    """R: it runs or wants to; S: it waits; Z: it has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def may_lease(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            return False
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return True


def test_a_file_that_cannot_be_written_to_its_end_is_an_error(wide: Path) -> None:
    out = wide.with_name("out.gguf")
    plan = make_plan(request(wide, "Q8_0"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (plan.file_bytes - 10_000, hard))
    try:
        with pytest.raises(OrinError, match=r"out\.gguf could not be written to its end"):
            write(plan, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.name for file in wide.parent.iterdir()] == ["wide.gguf"]


def test_the_model_itself_and_what_is_no_file_are_not_replaced(wide: Path) -> None:
    plan = make_plan(request(wide))
    with pytest.raises(UsageError, match="is the model itself"):
        write(plan, wide, force=True)
    pipe = wide.with_name("pipe")
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not a file that another one may replace"):
        write(plan, pipe, force=True)
    out = model(wide.with_name("out.gguf"), b"old")
    with pytest.raises(UsageError, match="exists; pass --force"):
        write(plan, out)
    assert out.read_bytes() == b"old"
    write(plan, out, force=True)
    assert out.read_bytes()[:4] == b"GGUF"


def test_a_whole_model_may_have_the_name_of_a_part(wide: Path) -> None:
    part = wide.rename(wide.with_name("wide-00001-of-00003.gguf"))
    plan = make_plan(request(part))
    assert plan.files == (part,)
    write(plan, part.with_name("out.gguf"))


def test_no_more_threads_than_the_hardware_has(wide: Path) -> None:
    """llama.cpp would start them all, and end the process where one cannot be started."""
    done = write(make_plan(request(wide)), wide.with_name("out.gguf"), threads=1_000_000)
    assert done.threads <= (os.cpu_count() or 1)
    assert usable_threads(1) == 1


def test_a_full_disk_is_noticed_before_the_work(
    wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(wide)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OrinError, match="not enough room"):
        write(make_plan(request(wide)), wide.with_name("out.gguf"))


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("place", [0, 1, 7, 8, 31, -1, -2, -9])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(
    wide: Path, kind: str, place: int, value: float
) -> None:
    source = wide.with_name("source.gguf")
    write(make_plan(request(wide, kind)), source)
    name = "blk.1.ffn_up.weight"
    tensor = next(t for t in check_gguf(source).tensors if t.name == name)
    width = 4 if kind == "F32" else 2
    bits = np.float32(value).view(np.uint32)
    half = np.float16(value).view(np.uint16)
    word = {"F32": bits, "F16": half, "BF16": np.uint16(bits >> 16)}[kind]
    with source.open("r+b") as file:
        file.seek(tensor.offset + place * width + (tensor.nbytes if place < 0 else 0))
        file.write(word.tobytes())
    with pytest.raises(ModelFileError, match=f"'{name}' has invalid data"):
        write(make_plan(request(source)), wide.with_name("out.gguf"))


def test_a_nan_in_the_model_names_its_tensor(wide: Path) -> None:
    break_value(wide, wide.stat().st_size - 96)
    with pytest.raises(ModelFileError, match="'blk.1.ffn_down.weight' has invalid data"):
        write(make_plan(request(wide)), wide.with_name("out.gguf"))
    assert [file.name for file in wide.parent.iterdir()] == ["wide.gguf"]
