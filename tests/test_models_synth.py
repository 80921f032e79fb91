"""Synthetic models: real shapes, the stock quantizer's types, sane random weights."""

from __future__ import annotations

import hashlib
import math
import shutil
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models_support import Recorder
from processes import python, run
from stepping import step_probe

from orin_llm._native import check_gguf
from orin_llm.engine import Engine, EngineConfig
from orin_llm.errors import OrinError, UsageError
from orin_llm.models.gguf_io import Metadata, row_bytes
from orin_llm.models.quant_mix import FILE_TYPES
from orin_llm.models.random_blocks import random_blocks
from orin_llm.models.reporter import Progress, Reporter
from orin_llm.models.shapes import SHAPES
from orin_llm.models.synth import model_tensors, rope_factors, synthesize, write_model
from orin_llm.models.vocabulary import llama_vocabulary
from orin_llm.text.template import ChatTemplate


@pytest.fixture(scope="session")
def vocabulary() -> Metadata:
    return llama_vocabulary()


@pytest.fixture(scope="module", params=list(FILE_TYPES))
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synth") / f"{request.param}.gguf"
    synthesize("tiny", request.param, out)
    return out


@pytest.fixture(scope="module")
def tiny_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    out = tmp_path_factory.mktemp("synth") / "tiny.gguf"
    synthesize("tiny", "Q4_K_M", out)
    with Engine(out, EngineConfig(n_ctx=1024, threads=1)) as engine:
        yield engine


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-3-8b", 8_030_261_248),
        ("llama-3.2-3b", 3_212_749_824),
        ("llama-3.2-1b", 1_235_814_400),
    ],
)
def test_a_shape_has_the_parameters_of_its_model(name: str, parameters: int) -> None:
    tensors = model_tensors(SHAPES[name], FILE_TYPES["Q4_K_M"], seed=0)
    counted = sum(math.prod(t.shape) for t in tensors if t.name != "rope_freqs.weight")
    assert counted == parameters


def test_more_bits_go_to_the_outer_eighths_and_every_third_layer_between() -> None:
    tensors = model_tensors(SHAPES["llama-3-8b"], FILE_TYPES["Q4_K_M"], seed=0)
    types = {tensor.name: tensor.ggml_type for tensor in tensors}
    for name in ("attn_v", "ffn_down"):
        assert [i for i in range(32) if types[f"blk.{i}.{name}.weight"] == "Q6_K"] == [
            *range(4),
            *range(6, 28, 3),
            *range(28, 32),
        ]


# Narrow models keep the layer counts of the real ones, on which the choice depends.
@pytest.mark.parametrize("quant", [name for name in FILE_TYPES if name != "F16"])
@pytest.mark.parametrize("name", list(SHAPES))
def test_types_are_those_that_the_stock_quantizer_chooses(
    needs_stock: None, name: str, quant: str, vocabulary: Metadata, tmp_path: Path
) -> None:
    tiny = SHAPES["tiny"]
    narrow = replace(
        tiny, n_layer=SHAPES[name].n_layer, tied_embeddings=SHAPES[name].tied_embeddings, n_ff=256
    )
    write_model(narrow, FILE_TYPES["F16"], vocabulary, tmp_path / "f16.gguf")
    write_model(narrow, FILE_TYPES[quant], vocabulary, tmp_path / "ours.gguf")
    program = (
        "import sys, llama_cpp as stock\n"
        "params = stock.llama_model_quantize_default_params()\n"
        "params.ftype = int(sys.argv[3])\n"
        "stock.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), params)\n"
    )
    command = python(program, "f16.gguf", "stock.gguf", str(FILE_TYPES[quant].code))
    run(command, cwd=tmp_path).check_returncode()
    ours, stock = (check_gguf(str(tmp_path / f"{who}.gguf")) for who in ("ours", "stock"))
    assert [(t.name, t.type, t.shape) for t in ours.tensors] == [
        (t.name, t.type, t.shape) for t in stock.tensors
    ]
    assert ours.metadata["general.file_type"] == stock.metadata["general.file_type"]


@pytest.mark.parametrize("ggml_type", ["F16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"])
def test_random_blocks_decode_to_the_deviation_asked_for_and_no_offset(ggml_type: str) -> None:
    n = 256 * 4096
    std = 1.0 / 64.0
    chunks = random_blocks(ggml_type, row_bytes(ggml_type, n), std=std, seed=1, name="x")
    data = np.concatenate([chunk.reshape(-1) for chunk in chunks])
    weights = gguf.dequantize(
        data.view("<f2") if ggml_type == "F16" else data, gguf.GGMLQuantizationType[ggml_type]
    )
    assert weights.std() == pytest.approx(std, rel=0.01)
    # The mean of n independent weights is itself off by std / sqrt(n); blocks share a scale and
    # so are a few times worse.
    assert abs(weights.mean()) < 10 * std / math.sqrt(n)


def test_blocks_do_not_depend_on_the_chunk_they_are_made_in() -> None:
    size = row_bytes("Q6_K", 256 * 100_000)  # several chunks
    whole = list(random_blocks("Q6_K", size, std=1.0, seed=3, name="x"))
    head = next(random_blocks("Q6_K", 210 * 8, std=1.0, seed=3, name="x"))
    assert len(whole) > 1
    assert sum(chunk.nbytes for chunk in whole) == size
    assert np.array_equal(whole[0][:8], head)


def test_a_file_passes_the_preflight(tiny: Path) -> None:
    header = check_gguf(str(tiny))
    assert header.metadata["llama.embedding_length"] == 256
    assert {t.type for t in header.tensors} >= {"F32", tiny.stem.removesuffix("_M")}


def test_tiny_is_below_5_mb(tmp_path: Path) -> None:
    synthesize("tiny", "Q4_K_M", tmp_path / "tiny.gguf")
    assert (tmp_path / "tiny.gguf").stat().st_size < 5_000_000


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    digests = []
    for number, seed in enumerate([7, 7, 8]):
        out = tmp_path / f"{number}.gguf"
        synthesize("tiny", "q4_k_m", out, seed=seed)
        digests.append(hashlib.sha256(out.read_bytes()).digest())
    assert digests[0] == digests[1] != digests[2]


def test_logits_stay_finite_and_peaked_over_a_long_prompt_and_decode(tiny: Path) -> None:
    with Engine(tiny, EngineConfig(n_ctx=1024, threads=1)) as engine:
        session = step_probe(engine)
        session.prefill([(7 * i * i + i) % 1792 for i in range(512)])
        rows = []
        for _ in range(32):
            rows.append(session.logits().astype(np.float64))
            session.decode(int(rows[-1].argmax()))
    logits = np.array(rows)
    assert np.isfinite(logits).all()
    assert logits.std() == pytest.approx(3.0, rel=0.1)
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    entropy = -(shares * np.log(shares)).sum(-1)
    assert 1.0 < entropy.mean() < math.log(2048) - 1.0
    assert len(set(logits.argmax(-1))) > 16  # the text does not get stuck on one token


@given(text=st.text(max_size=80))
@example(text="a ? b , c 's")  # llama.cpp's own detokenizer takes these spaces away
@settings(max_examples=200)
def test_any_text_survives_the_cut_vocabulary(tiny_engine: Engine, text: str) -> None:
    tokens = tiny_engine.tokenize(text, add_special=False)
    assert max(tokens, default=0) < 1792  # what the user types is never a control token
    assert tiny_engine.detokenize(tokens) == text.encode()


def test_common_words_are_one_token_in_the_cut_vocabulary(tiny_engine: Engine) -> None:
    tokens = tiny_engine.tokenize(" the and that with", add_special=False)
    assert [tiny_engine.token_bytes(t) for t in tokens] == [b" the", b" and", b" that", b" with"]


def test_control_tokens_are_kept_under_new_ids(tiny_engine: Engine) -> None:
    assert tiny_engine.bos_id == tiny_engine.special_tokens["<|begin_of_text|>"] == 1792
    assert tiny_engine.eos_id == tiny_engine.special_tokens["<|eot_id|>"] == 1792 + 9
    assert tiny_engine.tokenize("", add_special=True) == [1792]
    assert tiny_engine.tokenize("<|eot_id|>", add_special=False, parse_special=True) == [1801]


def test_the_chat_template_writes_the_llama_3_dialogue(tiny_engine: Engine) -> None:
    assert tiny_engine.chat_template is not None
    template = ChatTemplate(
        tiny_engine.chat_template,
        bos_token=tiny_engine.bos_token,
        eos_token=tiny_engine.eos_token,
    )
    assert template.render(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi\n"}]
    ) == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_rope_keeps_the_fast_dimensions_and_stretches_the_slow_ones() -> None:
    model = SHAPES["llama-3.2-1b"]
    factors = rope_factors(model)
    wavelengths = 2 * np.pi * model.rope_base ** (np.arange(0, 64, 2) / 64)
    assert factors.shape == (32,)
    assert (factors[wavelengths < 8192 / 4] == 1.0).all()
    assert (factors[wavelengths > 8192] == 32.0).all()
    between = factors[(wavelengths > 8192 / 4) & (wavelengths < 8192)]
    assert len(between) > 0
    assert (between > 1.0).all() and (between < 32.0).all()
    assert (np.diff(factors) >= 0).all()


@pytest.mark.parametrize(
    ("shape", "quant", "listed"),
    [("llama-4", "Q4_K_M", list(SHAPES)), ("tiny", "Q3_K_M", list(FILE_TYPES))],
)
def test_an_unknown_name_is_answered_with_the_known_ones(
    shape: str, quant: str, listed: list[str], tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        synthesize(shape, quant, tmp_path / "x.gguf")
    assert all(name in str(raised.value) for name in listed)


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "x.gguf"
    out.write_text("precious")
    with pytest.raises(UsageError, match="--force"):
        synthesize("tiny", "Q4_K_M", out)
    assert out.read_text() == "precious"
    synthesize("tiny", "Q4_K_M", out, force=True)
    check_gguf(str(out))


@pytest.mark.parametrize("place", ["missing/x.gguf", "."])
def test_a_place_that_cannot_take_a_file_is_a_usage_error(place: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        synthesize("tiny", "Q4_K_M", tmp_path / place)


def test_interrupting_leaves_nothing_behind_and_an_old_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "x.gguf"
    out.write_text("precious")

    class Interrupt(Reporter):
        def progress(self, progress: Progress) -> None:
            if progress.done > (progress.total or 0) // 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synthesize("tiny", "Q4_K_M", out, force=True, reporter=Interrupt())
    assert list(tmp_path.iterdir()) == [out]
    assert out.read_text() == "precious"


def test_a_full_disk_is_known_before_the_weights_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    recorder = Recorder()
    with pytest.raises(OrinError, match="not enough room"):
        synthesize("tiny", "Q4_K_M", tmp_path / "x.gguf", reporter=recorder)
    assert recorder.steps == []
    assert list(tmp_path.iterdir()) == []


def test_progress_grows_to_the_bytes_of_the_tensors(tmp_path: Path) -> None:
    recorder = Recorder()
    out = tmp_path / "x.gguf"
    synthesize("tiny", "Q8_0", out, reporter=recorder)
    done = [progress.done for progress in recorder.steps]
    assert done == sorted(done)
    header = check_gguf(str(out))
    total = header.file_bytes - header.data_offset
    assert recorder.steps[-1] == Progress("writing x.gguf", total, total)


def test_memory_does_not_grow_with_the_file(vocabulary: Metadata, tmp_path: Path) -> None:
    wide = replace(SHAPES["tiny"], n_embd=2048, n_ff=8192, n_head=32, n_head_kv=8, n_layer=3)
    out = tmp_path / "x.gguf"
    tracemalloc.start()
    write_model(wide, FILE_TYPES["Q8_0"], vocabulary, out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert out.stat().st_size > 180 << 20
    assert peak < 48 << 20
