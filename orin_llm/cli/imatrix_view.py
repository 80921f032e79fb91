"""What `orin-llm imatrix` prints: the tensors whose inputs are largest, or JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from orin_llm.cli.json_output import print_json
from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.table import print_table
from orin_llm.engine.loaded_model import LoadedModel
from orin_llm.host.units import counted
from orin_llm.quality.imatrix import Imatrix
from orin_llm.quality.imatrix_collect import Collection
from orin_llm.quality.imatrix_statistics import TensorStatistics, statistics

_ROWS = 10


def print_collected(done: Collection, model: LoadedModel, out: Path, *, as_json: bool) -> None:
    """The result of a collection."""
    imatrix, collected = done.imatrix, done.imatrix.collected
    assert collected is not None
    tokens = done.windows * imatrix.chunk_size
    rate = 1e3 * tokens / done.elapsed_ms if done.windows else None
    if as_json:
        figures = {
            "model": str(model.model_path),
            "device": model.model.device,
            "text": imatrix.datasets[-1],
            "text_sha256": collected.text_sha256,
            "windows": collected.windows_done,
            "windows_total": collected.windows_total,
            "elapsed_ms": done.elapsed_ms,
            "tokens_per_s": rate,
        }
        print_json({**_facts(imatrix, out), **figures, **_tensors(imatrix)})
        return
    _print_tensors(imatrix)
    speed = "nothing was left to read" if rate is None else f"{rate:.0f} tokens/s"
    text = counted(collected.windows_done, "window")
    resumed = 0 < done.windows < collected.windows_done
    now = f", {done.windows} of them in this run" if resumed else ""
    print_paragraph(
        f"{out}: {text} of {imatrix.chunk_size} tokens of {imatrix.datasets[-1]}{now}, {speed}"
    )


def print_merged(imatrix: Imatrix, out: Path, *, as_json: bool) -> None:
    """The result of putting files together."""
    if as_json:
        print_json({**_facts(imatrix, out), **_tensors(imatrix)})
        return
    _print_tensors(imatrix)
    texts = ", ".join(imatrix.datasets)
    print_paragraph(f"{out}: {counted(imatrix.chunk_count, 'window')} of {texts}")


def _facts(imatrix: Imatrix, out: Path) -> dict[str, Any]:
    return {
        "file": str(out),
        "file_bytes": out.stat().st_size,
        "texts": list(imatrix.datasets),
        "chunk_count": imatrix.chunk_count,
        "chunk_size": imatrix.chunk_size,
    }


def _tensors(imatrix: Imatrix) -> dict[str, Any]:
    return {"tensors": [dataclasses.asdict(one) for one in statistics(imatrix)]}


def _print_tensors(imatrix: Imatrix) -> None:
    groups = _groups(statistics(imatrix))
    columns = ["TENSORS WITH THE LARGEST INPUTS", "SUM", "MEAN", "LARGEST", "ENTROPY", "OUTLIERS"]
    print_table(columns, [_row(group) for group in groups[:_ROWS]])
    print()
    unused = [one for group in groups for one in group if one.unused]
    if unused:
        worst = max(unused, key=lambda one: one.unused)
        print_paragraph(
            f"in {counted(len(unused), 'tensor')} there are experts that no token went to, in "
            f"{worst.name} {worst.unused} of {worst.matrices}: quantizing takes their inputs as "
            "all alike (a longer or more varied text may reach them)"
        )


def _groups(found: Iterable[TensorStatistics]) -> list[list[TensorStatistics]]:
    """Tensors that read the same inputs, such as those of Q, K and V, together."""
    groups: dict[tuple[Any, ...], list[TensorStatistics]] = {}
    for one in found:
        layer = one.name.rpartition(".weight")[0].rpartition(".")[0]
        same = dataclasses.replace(one, name=layer)
        groups.setdefault(dataclasses.astuple(same), []).append(one)
    return list(groups.values())


def _row(group: Sequence[TensorStatistics]) -> list[str]:
    first = group[0]
    layer, _, name = first.name.removesuffix(".weight").rpartition(".")
    others = [one.name.removesuffix(".weight").rpartition(".")[2] for one in group[1:]]
    return [
        f"{layer}.{', '.join([name, *others])}" if layer else name,
        f"{first.total:.4g}",
        f"{first.mean:.3g}",
        f"{first.largest:.3g}",
        f"{100 * first.entropy:.1f} %",
        f"{100 * first.outliers:.1f} %",
    ]
