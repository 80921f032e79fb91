"""Where the table of tokens and the output matrix are, and what a token reads of them."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from gguf_bytes import F16, Q4_0, Q8_0, Tensor, tiny_llama
from models_support import write_split_model

from orin_llm.cli.models_view import print_facts
from orin_llm.device.budget import MemoryBudget
from orin_llm.engine import Engine, EngineConfig
from orin_llm.gguf.header import read_header
from orin_llm.models.show import Facts, show
from orin_llm.models.tables import TokenTables, token_tables

ROWS, COLUMNS = 304, 64  # rows in eights, as repacking wants them
BLOCK_BYTES = {Q4_0: 18, Q8_0: 34}  # of 32 values
# Of those, what llama.cpp repacks with AVX2, and with NEON and its dot products.
REPACKED = {"x86_64": [Q4_0], "aarch64": [Q4_0, Q8_0]}


def tables_of(path: Path, data: bytes) -> TokenTables:
    path.write_bytes(data)
    tables = token_tables(path, read_header(path))
    assert tables is not None
    return tables


def facts_of(path: Path, *, is_gpus_own: bool = False) -> Facts:
    return show(path, MemoryBudget(1 << 30, "memory", is_gpus_own))


def quantized_table(kind: int) -> Tensor:
    data = bytes(ROWS * COLUMNS // 32 * BLOCK_BYTES[kind])
    return Tensor("token_embd.weight", (COLUMNS, ROWS), kind, data)


def test_one_table_may_do_both(tmp_path: Path) -> None:
    tables = tables_of(tmp_path / "m.gguf", tiny_llama(n_vocab=ROWS).data)
    assert tables.tied and not tables.copied
    assert tables.embedding.read_per_token == 4 * COLUMNS
    assert tables.output is not None
    assert tables.output.tensor == tables.embedding.tensor == "token_embd.weight"
    assert tables.output.read_per_token == tables.output.size == 4 * COLUMNS * ROWS


def test_an_output_of_its_own_has_its_own_type(tmp_path: Path) -> None:
    output = Tensor("output.weight", (COLUMNS, ROWS), F16, bytes(2 * COLUMNS * ROWS))
    model = tiny_llama(n_vocab=ROWS, tensors={"output.weight": output})
    tables = tables_of(tmp_path / "m.gguf", model.data)
    assert not tables.tied and not tables.copied and tables.output is not None
    assert (tables.embedding.type, tables.output.type) == ("F32", "F16")
    assert tables.output.read_per_token == 2 * COLUMNS * ROWS


def test_a_table_that_is_repacked_for_products_is_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "m.gguf"
    model = tiny_llama(n_vocab=ROWS, tensors={"token_embd.weight": quantized_table(Q4_0)})
    tables = tables_of(path, model.data)
    if tables.output is None or not tables.output.repacked:
        pytest.skip("this processor multiplies Q4_0 as the file has it")
    assert tables.tied and tables.copied and not tables.embedding.repacked
    print_facts(facts_of(path))
    shown = capsys.readouterr().out
    assert "embedding       Q4_0 304 × 64, 10.9 kB on the CPU; a token reads 36 B, one row" in shown
    assert "(tied), in a second copy on the CPU, repacked for its dot products; " in shown
    assert "table's copy      10.9 kB   of the embedding" in shown


@pytest.mark.parametrize("kind", [Q4_0, Q8_0])
def test_a_second_copy_takes_memory_from_sequences(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "m.gguf"
    table = quantized_table(kind)
    path.write_bytes(tiny_llama(n_vocab=ROWS, tensors={"token_embd.weight": table}).data)
    copied = len(table.data) if kind in REPACKED[platform.machine()] else 0
    fit = facts_of(path).fit
    assert fit.table_copy == copied
    assert fit.left == fit.usable - fit.weights - copied - fit.activations
    assert fit.to_json()["table_copy_bytes"] == copied
    # A GPU has one table, and what the CPU keeps is no matter there.
    assert facts_of(path, is_gpus_own=True).fit.table_copy == 0


def test_places_are_those_of_an_engine(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tables = tables_of(path, tiny_llama().data)
    with Engine(path, EngineConfig(n_ctx=64, publish=False)) as engine:
        assert tables.embedding.device == engine.backend["device"]


def test_what_llama_cpp_cannot_load_is_described_by_its_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_llama(arch="mystery").data)
    facts = facts_of(path)
    assert facts.tables is None and "mystery" in facts.problem
    assert facts.to_json()["problem"] == facts.problem and facts.layers == 2
    print_facts(facts)
    assert "problem         " in capsys.readouterr().out


def test_a_split_model_is_asked_for_by_any_part(tmp_path: Path) -> None:
    facts = facts_of(write_split_model(tmp_path)[1])
    assert facts.tables is not None, facts.problem
    assert facts.tables.embedding.tensor == "token_embd.weight"
