"""On a GPU the table of tokens and the output matrix are one table there, where it can look up."""

from __future__ import annotations

from pathlib import Path

from gguf_bytes import Tensor, tiny_llama
from gpu.conftest import HEADS_OF_64

from orin_llm.gguf.header import read_header
from orin_llm.models.tables import token_tables

IQ4_NL = 20


def test_both_tables_are_where_the_gpu_reads_them(model: Path) -> None:
    tied = token_tables(model, read_header(model))
    assert tied is not None and tied.output is not None
    assert tied.tied and not tied.copied
    assert tied.embedding.device == tied.output.device != "cpu"


def test_a_table_that_the_gpu_cannot_look_up_in_is_on_the_cpu(tmp_path: Path) -> None:
    shape = HEADS_OF_64
    size = (shape.n_embd, shape.n_vocab)
    table = Tensor("token_embd.weight", size, IQ4_NL, bytes(size[0] * size[1] // 32 * 18))
    path = tmp_path / "table.gguf"
    path.write_bytes(tiny_llama(shape=shape, tensors={"token_embd.weight": table}).data)
    tables = token_tables(path, read_header(path))
    assert tables is not None and tables.output is not None
    assert tables.tied and tables.copied
    assert (tables.embedding.device, tables.output.device != "cpu") == ("cpu", True)
