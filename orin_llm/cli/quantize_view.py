"""What `orin-llm quantize` prints for people."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.render import visible
from orin_llm.cli.table import print_table
from orin_llm.host.units import counted, size_text
from orin_llm.models.quantize import Quantized
from orin_llm.models.quantize_plan import QuantizePlan
from orin_llm.models.quantize_report import Share, fallbacks, shares, total, without_importance

_NAMES_SHOWN = 3


def estimate(plan: QuantizePlan, out: Path) -> str:
    """One line before the work: how large the file will be, and whether the disk holds it."""
    whole = total(plan)
    free = size_text(shutil.disk_usage(out.parent).free)
    return visible(
        f"{plan.files[0].name}, {size_text(plan.source_bytes)} → {out.name}, {whole.type}, about "
        f"{size_text(plan.file_bytes)}, {whole.bits_per_weight:.2f} bits a weight; {free} are free "
        "there"
    )


def print_report(plan: QuantizePlan, done: Quantized | None) -> None:
    """The mix of types, and what is not as the kind of file says."""
    rows = [_row(share.type, share) for share in shares(plan)]
    rows.append(_row("all", total(plan)))
    print_table(["TYPE", "TENSORS", "SIZE", "BITS A WEIGHT"], rows)
    print()
    for text in _notes(plan):
        print_paragraph(text)
    if done is None:
        print_paragraph("nothing was written (--dry-run)")
        return
    seconds = done.duration_ms / 1e3
    rate = size_text(plan.source_bytes / seconds)
    print_paragraph(
        f"{done.out}: {size_text(done.file_bytes)}, written in {seconds:.1f} s by "
        f"{counted(done.threads, 'thread')} ({rate}/s of the model)"
    )


def _row(name: str, share: Share) -> list[str]:
    return [name, str(share.tensors), size_text(share.bytes), f"{share.bits_per_weight:.2f}"]


def _notes(plan: QuantizePlan) -> Iterator[str]:
    for fallback in fallbacks(plan.tensors):
        yield (
            f"{_count(fallback.tensors)} {fallback.type} in place of {fallback.wanted_type}, whose "
            f"blocks do not divide rows of {fallback.n_inputs} weights"
        )
    missing = without_importance(plan)
    if missing:
        names = ", ".join(missing[:_NAMES_SHOWN]) + (", …" if len(missing) > _NAMES_SHOWN else "")
        yield f"{_count(len(missing))} quantized without importance, not in the matrix: {names}"


def _count(tensors: int) -> str:
    return "1 tensor is" if tensors == 1 else f"{tensors} tensors are"
