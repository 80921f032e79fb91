"""Quantizing a model: the file that a plan is carried out into."""

from __future__ import annotations

import math
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from orin_llm import _native
from orin_llm.errors import ModelFileError, OrinError
from orin_llm.gguf.header import read_header
from orin_llm.host.cpu import read_cpu
from orin_llm.host.disk import require_space
from orin_llm.models.output_file import disk_full_text, new_file, require_apart, require_new
from orin_llm.models.quantize_plan import QuantizePlan
from orin_llm.models.quantize_source import watched
from orin_llm.models.reporter import Progress, Reporter

_FULL_BYTES = 1 << 20  # a disk with less is full


@dataclass(frozen=True)
class Quantized:
    """A file that was written.

    Attributes:
        file_bytes: its size.
        duration_ms: from the first tensor to the last byte.
        threads: that computed.
    """

    plan: QuantizePlan
    out: Path
    file_bytes: int
    duration_ms: float
    threads: int


def check_place(plan: QuantizePlan, out: Path, *, force: bool) -> None:
    """Whether there may be a file of that name.

    Raises:
        UsageError, OrinError: as `output_file.require_new`, or it is one of the model's own files.
    """
    require_apart(out, plan.files)
    require_new(out, force=force)


def check_room(plan: QuantizePlan, out: Path) -> None:
    """Whether the disk has room for it.

    Raises:
        OrinError: it has not.
    """
    require_space(out.parent, plan.file_bytes)


def write(
    plan: QuantizePlan,
    out: Path,
    *,
    threads: int = 0,
    force: bool = False,
    reporter: Reporter | None = None,
) -> Quantized:
    """Carry the plan out. The file appears under its name when it is whole.

    Args:
        threads: that compute; see `usable_threads`.
        force: overwrite `out` if it exists.
        reporter: told how many bytes of the model are done; may raise to stop.

    Raises:
        UsageError, OrinError: as `check_place` and `check_room`; or the disk filled up.
        ModelFileError: a tensor's data is damaged, or a file of the model changed meanwhile.
    """
    check_place(plan, out, force=force)
    check_room(plan, out)
    report = (reporter or Reporter()).progress
    step, total = f"quantizing {plan.files[0].name}", plan.source_bytes
    threads = usable_threads(threads)
    began = time.perf_counter()
    with new_file(out, force=force) as part, watched(plan.files) as check_source:

        def on_progress(done: int) -> None:
            report(Progress(step, done, total))
            check_source()  # last, since llama.cpp reads on when this returns

        try:
            _native.quantize(
                os.fsencode(plan.files[0]), os.fsencode(part), plan.params(threads), on_progress
            )
        except ModelFileError:
            check_source()  # a change explains what llama.cpp stumbled over
            raise
        except OrinError:
            raise OrinError(_why_unwritten(out)) from None
        check_source()
        _check_written(part, plan, out)
        file_bytes = part.stat().st_size
    duration_ms = 1e3 * (time.perf_counter() - began)
    return Quantized(plan, out, file_bytes, duration_ms, threads)


def usable_threads(wanted: int = 0) -> int:
    """As many as wanted; 0: what the container's share of time is worth. Not above the hardware's.

    More would only wait, and llama.cpp starts all of them for every few rows.
    """
    cpu = read_cpu()
    share = cpu.logical_cores if cpu.quota is None else math.ceil(cpu.quota)
    return max(1, min(cpu.logical_cores, wanted or share))


def _check_written(part: Path, plan: QuantizePlan, out: Path) -> None:
    """llama.cpp does not look whether the last of what it wrote reached the disk.

    Raises:
        OrinError: the file is not what the plan says.
    """
    try:
        found = read_header(part).tensors
    except ModelFileError:
        raise OrinError(_why_unwritten(out)) from None
    wanted = [(tensor.name, tensor.new_type, tensor.new_bytes) for tensor in plan.tensors]
    if [(tensor.name, tensor.type, tensor.nbytes) for tensor in found] != wanted:
        raise OrinError(f"{out} did not become what was planned; nothing was kept")


def _why_unwritten(out: Path) -> str:
    if shutil.disk_usage(out.parent).free < _FULL_BYTES:
        return disk_full_text(out)
    return f"{out} could not be written to its end; is its disk sound, and is there a quota?"
