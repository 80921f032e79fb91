"""Where a model's table of tokens and its output matrix are kept, and what a token reads of them.

Their share is large in small models: the output matrix is read whole for every token, the embedding
only looked up. Many models have one table for both (tied).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orin_llm.engine.config import EngineConfig
from orin_llm.engine.loaded_model import table_on_gpu
from orin_llm.gguf.header import Header, Tensor
from orin_llm.gguf.split import part_paths

if TYPE_CHECKING:
    from orin_llm._native import TablePlace


@dataclass(frozen=True)
class TokenTable:
    """One of the two tables.

    Attributes:
        tensor: its name in the file.
        shape: columns, rows; a row a token.
        size: in bytes.
        read_per_token: bytes of it that decoding one token reads.
        device: `cpu`, or the GPU's name.
        repacked: it is laid out anew for the CPU's dot products.
    """

    tensor: str
    type: str
    shape: tuple[int, ...]
    size: int
    read_per_token: int
    device: str
    repacked: bool

    def to_json(self) -> dict[str, Any]:
        """For `--json`: sizes in bytes."""
        return {
            "tensor": self.tensor,
            "type": self.type,
            "shape": list(self.shape),
            "size_bytes": self.size,
            "read_per_token_bytes": self.read_per_token,
            "device": self.device,
            "repacked": self.repacked,
        }


@dataclass(frozen=True)
class TokenTables:
    """Both tables.

    Attributes:
        embedding: what tokens are looked up in.
        output: what logits are computed with; None in a model that has none.
        tied: the file has one table for both.
        copied: that table is in memory twice all the same: looked up in one place, multiplied in
            another, or in another layout.
    """

    embedding: TokenTable
    output: TokenTable | None
    tied: bool
    copied: bool

    @property
    def copy_bytes(self) -> int:
        """Of the second copy."""
        return self.output.size if self.copied and self.output is not None else 0

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "embedding": self.embedding.to_json(),
            "output": None if self.output is None else self.output.to_json(),
            "tied": self.tied,
            "copied": self.copied,
        }


def token_tables(path: Path, header: Header) -> TokenTables | None:
    """The tables as an engine without flags of its own places them on this machine.

    llama.cpp is asked, with a load that reads no weights. None where it knows no such table.

    Raises:
        ModelFileError: llama.cpp cannot load the model.
        DeviceUnavailable: the extension module is not built or does not load.
    """
    from orin_llm import _native

    config = EngineConfig()
    params = _native.ModelParams(
        gpu_layers=config.gpu_layers, table_on_gpu=table_on_gpu(header, config)
    )
    places = _native.table_places(os.fsencode(part_paths(path)[0]), params)
    tensors = {tensor.name: tensor for tensor in header.tensors}
    looked_up, multiplied = places["embedding"], places["output"]
    if looked_up is None or looked_up["tensor"] not in tensors:
        return None
    tied = multiplied is not None and multiplied["tensor"] == looked_up["tensor"]
    return TokenTables(
        embedding=_table(tensors[looked_up["tensor"]], looked_up, looks_up=True),
        output=_table(tensors[multiplied["tensor"]], multiplied, looks_up=False)
        if multiplied is not None and multiplied["tensor"] in tensors
        else None,
        tied=tied,
        copied=tied and not places["is_one_table"],
    )


def _table(tensor: Tensor, place: TablePlace, *, looks_up: bool) -> TokenTable:
    rows = max(1, math.prod(tensor.shape[1:]))
    return TokenTable(
        tensor=tensor.name,
        type=tensor.type,
        shape=tuple(tensor.shape),
        size=tensor.nbytes,
        read_per_token=tensor.nbytes // rows if looks_up else tensor.nbytes,
        device=place["device"],
        repacked=place["is_repacked"],
    )
