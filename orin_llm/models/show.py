"""Everything `models show` tells of a model, gathered from its header and this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm.device.budget import MemoryBudget
from orin_llm.errors import ModelFileError
from orin_llm.gguf import footprint
from orin_llm.gguf.header import Header, read_model_header
from orin_llm.gguf.kv_layers import Hyperparameters
from orin_llm.models import describe
from orin_llm.models.fit import Fit, fit
from orin_llm.models.tables import TokenTables, token_tables


@dataclass(frozen=True)
class Facts:
    """A model described.

    Attributes:
        path: the file to load.
        title: `general.name`, or "".
        parameters: elements of all tensors.
        size: of all tensors, in bytes.
        context: tokens it was trained for, 0 where the file does not say.
        template: features of its chat template, None where it has none.
        tables: its table of tokens and its output matrix; None where it has none, or where
            llama.cpp cannot load it, and `problem` says why.
        read_per_token: bytes of weights read to decode one token.
        kv_per_token: bytes of KV cache per token.
        window: tokens of the sliding window, 0 without one.
        state: bytes of recurrent state per sequence.
    """

    path: Path
    title: str
    architecture: str
    licence: str
    quant: str
    parameters: int
    size: int
    types: tuple[describe.TypeShare, ...]
    layers: int
    context: int
    template: tuple[str, ...] | None
    tables: TokenTables | None
    problem: str
    read_per_token: int
    kv_per_token: int
    window: int
    state: int
    fit: Fit

    def to_json(self) -> dict[str, Any]:
        """For `--json`: sizes in bytes with the suffix `_bytes`."""
        shares = [
            {"type": share.type, "tensors": share.tensors, "size_bytes": share.bytes}
            for share in self.types
        ]
        return {
            "path": str(self.path),
            "title": self.title,
            "architecture": self.architecture,
            "licence": self.licence,
            "quant": self.quant,
            "parameters": self.parameters,
            "size_bytes": self.size,
            "tensor_types": shares,
            "layers": self.layers,
            "context": self.context,
            "chat_template": None if self.template is None else {"features": list(self.template)},
            "tables": None if self.tables is None else self.tables.to_json(),
            "problem": self.problem or None,
            "weights_read_per_token_bytes": self.read_per_token,
            "kv_per_token_bytes": self.kv_per_token,
            "sliding_window": self.window,
            "recurrent_state_bytes": self.state,
            "memory": self.fit.to_json(),
        }


def show(
    path: Path, budget: MemoryBudget, *, ctx: int = 0, chunk_size: int = 512, kv_type: str = "f16"
) -> Facts:
    """Describe the model in `path`.

    Raises:
        ModelFileError: the file is damaged or of another kind.
        UsageError: an unknown `kv_type`.
    """
    header = read_model_header(path)
    tables, problem = None, ""
    try:
        tables = token_tables(path, header)
    except ModelFileError as error:  # another architecture, say: the header tells the rest
        problem = str(error)
    fitted = fit(header, budget, ctx=ctx, chunk_size=chunk_size, kv_type=kv_type, tables=tables)
    return _facts(header, path, fitted, tables, problem)


def _facts(
    header: Header, path: Path, fitted: Fit, tables: TokenTables | None, problem: str
) -> Facts:
    hp = Hyperparameters(header)
    template = describe.template_features(header)
    return Facts(
        path=path,
        title=str(header.metadata.get("general.name", "")),
        architecture=hp.architecture,
        licence=str(header.metadata.get("general.license", "")),
        quant=describe.quant(header, path.name),
        parameters=describe.parameters(header),
        size=fitted.weights,
        types=tuple(describe.type_mix(header)),
        layers=hp.layers,
        context=describe.context(header),
        template=None if template is None else tuple(template),
        tables=tables,
        problem=problem,
        read_per_token=footprint.bytes_read_per_token(header),
        kv_per_token=footprint.kv_bytes_per_token(header, fitted.kv_type),
        window=footprint.largest_window(header),
        state=footprint.state_bytes(header),
        fit=fitted,
    )
