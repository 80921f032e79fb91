"""What a sound file holds is reported as it is."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType, GGUFReader
from gguf.constants import GGML_QUANT_SIZES
from gguf_bytes import (
    Tensor,
    Typed,
    array,
    boolean,
    bpe_vocab,
    f32,
    spm_vocab,
    string,
    tiny_llama,
    u32,
    vocab_only,
    write_gguf,
)
from gguf_cases import SMALL, refused
from gguf_strategies import ARCHITECTURES
from gguf_writer import VALUE_TYPES

from orin_llm._native import check_gguf

VOCABULARIES = """
    aquila baichuan bert-bge command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 gpt-neox
    llama-bpe llama-spm mpt nomic-bert-moe phi-3 qwen2 qwen35 refact starcoder
"""


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_sound_models_pass(arch: str, tmp_path: Path) -> None:
    for vocab in (spm_vocab(300), bpe_vocab(300)):
        image = tiny_llama(arch=arch, vocab=vocab)
        header = check_gguf(write(tmp_path / "sound.gguf", image.data))
        assert header.file_bytes == len(image.data)
        assert header.data_offset == image.marks["data"]
        assert (header.version, header.alignment, header.n_parts) == (3, 32, 1)


def test_tensors_are_reported_in_order_with_file_offsets(tmp_path: Path) -> None:
    image = tiny_llama(**SMALL)
    header = check_gguf(write(tmp_path / "m.gguf", image.data))
    first, norm = header.tensors[0], header.tensors[1]
    assert (first.name, first.type, first.type_id) == ("token_embd.weight", "F32", 0)
    assert (first.shape, first.nbytes, first.part) == ((32, 16), 32 * 16 * 4, 0)
    assert norm.name == "output_norm.weight"
    for tensor in header.tensors:
        assert tensor.offset == image.marks[f"{tensor.name}/data"]


def test_metadata_of_every_type_survives(tmp_path: Path) -> None:
    entries = {
        "a.u8": Typed("u8", 255),
        "a.i8": Typed("i8", -128),
        "a.u16": Typed("u16", 65535),
        "a.i16": Typed("i16", -32768),
        "a.u32": u32(2**32 - 1),
        "a.i32": Typed("i32", -(2**31)),
        "a.f32": f32(0.5),
        "a.bool": boolean(True),
        "a.string": string("\u2603 \U0001f600"),
        "a.u64": Typed("u64", 2**64 - 1),
        "a.i64": Typed("i64", -(2**63)),
        "a.f64": Typed("f64", 1e300),
        "a.bools": array("bool", [True, False]),
        "a.strings": array("string", ["", "x", "\u00e9"]),
        "a.floats": array("f32", [0.0, -1.5]),
        "a.empty": array("i64", []),
    }
    metadata = {**entries, "tokenizer.ggml.padding_token_id": u32(10**6)}
    image = tiny_llama(metadata=metadata, **SMALL)
    header = check_gguf(write(tmp_path / "m.gguf", image.data))
    found, types = header.metadata, header.value_types
    for name, typed in entries.items():
        assert found[name] == typed.value
        assert type(found[name]) is type(typed.value)
        assert types[name] == VALUE_TYPES[typed.kind][0]
    assert list(types) == list(found)
    assert list(found)[:2] == ["general.architecture", "general.name"]


def test_strings_that_are_not_utf8_keep_their_bytes(tmp_path: Path) -> None:
    image = tiny_llama(metadata={"general.name": string(b"\xff\xfe")}, **SMALL)
    name = check_gguf(write(tmp_path / "m.gguf", image.data)).metadata["general.name"]
    assert name.encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_a_value_alone_is_what_the_metadata_has(tmp_path: Path) -> None:
    image = tiny_llama(vocab=bpe_vocab(300))
    header = check_gguf(write(tmp_path / "m.gguf", image.data))
    assert len(header.metadata) > 15
    for key, value in header.metadata.items():
        assert header.value(key) == value
    assert header.value("llama.no_such_key") is None


def test_version_2_is_read(tmp_path: Path) -> None:
    image = vocab_only().patched("version", "<I", 2)
    assert check_gguf(write(tmp_path / "m.gguf", image.data)).version == 2


def test_a_vocabulary_alone_passes_and_has_no_tensors(tmp_path: Path) -> None:
    header = check_gguf(write(tmp_path / "m.gguf", vocab_only().data))
    assert header.tensors == []
    assert len(header.metadata["tokenizer.ggml.tokens"]) == 300


def test_larger_alignments_are_kept(tmp_path: Path) -> None:
    vocab = spm_vocab(16)
    entries = {"general.architecture": string("x"), "general.alignment": u32(4096), **vocab}
    for name in ("context_length", "embedding_length", "block_count"):
        entries[f"x.{name}"] = u32(1)
    image = write_gguf(entries, [Tensor("a", (3,)), Tensor("b", (5,))], alignment=4096)
    header = check_gguf(write(tmp_path / "m.gguf", image.data))
    assert header.alignment == 4096
    assert [t.offset % 4096 for t in header.tensors] == [0, 0]


@pytest.mark.parametrize("kind", GGML_QUANT_SIZES)
def test_block_sizes_are_those_of_the_gguf_package(
    kind: GGMLQuantizationType, tmp_path: Path
) -> None:
    elements, nbytes = GGML_QUANT_SIZES[kind]
    entries = {"general.architecture": string("x"), **spm_vocab(16)}
    for name in ("context_length", "embedding_length", "block_count"):
        entries[f"x.{name}"] = u32(1)
    image = write_gguf(entries, [Tensor("x", (elements, 3), int(kind), bytes(3 * nbytes))])
    path = tmp_path / "m.gguf"
    if kind.name in ("I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K"):
        assert f"of type {kind.name}, which weights" in str(refused(path, image.data))
        return
    tensor = check_gguf(write(path, image.data)).tensors[0]
    assert (tensor.type, tensor.nbytes) == (kind.name, 3 * nbytes)


def test_the_default_model_reads_as_the_gguf_package_reads_it(smollm2: Path) -> None:
    assert_same_as_gguf_package(smollm2)


@pytest.mark.parametrize("name", ["bert-bge", "deepseek-coder", "llama-spm"])
def test_vocabularies_read_as_the_gguf_package_reads_them(name: str) -> None:
    from orin_llm.upstream import vocab_file

    assert_same_as_gguf_package(vocab_file(name))


def test_every_vocabulary_of_the_sources_passes() -> None:
    from orin_llm.upstream import vocab_file

    for name in VOCABULARIES.split():
        header = check_gguf(vocab_file(name))
        assert header.tensors == []
        assert header.metadata["tokenizer.ggml.tokens"]


def assert_same_as_gguf_package(path: Path) -> None:
    header = check_gguf(path)
    oracle = GGUFReader(path)
    expected: dict[str, Any] = {
        name: field.contents()
        for name, field in oracle.fields.items()
        if not name.startswith("GGUF.")
    }
    assert set(header.metadata) == set(expected)
    for name, value in header.metadata.items():
        assert value == expected[name], name
    assert header.data_offset == oracle.data_offset or not oracle.tensors
    found = [(t.name, t.type_id, t.shape, t.offset, t.nbytes) for t in header.tensors]
    assert found == [
        (t.name, int(t.tensor_type), tuple(t.shape.tolist()), t.data_offset, t.n_bytes)
        for t in oracle.tensors
    ]


def test_files_are_read_from_many_threads_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", tiny_llama().data)
    names: list[list[str]] = []

    def read() -> None:
        names.append([tensor.name for tensor in check_gguf(path).tensors])

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 8
    assert all(each == names[0] for each in names)
