"""Perplexities beside those of llama.cpp's own tool (calibration/perplexity.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gguf_bytes import Shape, tiny_llama

from orin_llm.engine import EngineConfig, Hooks
from orin_llm.quality.estimates import Estimate
from orin_llm.quality.perplexity import perplexity
from orin_llm.quality.window_logits import WindowLogits
from orin_llm.quality.windows import Windows

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "calibration/perplexity.json").read_text(encoding="utf-8")
)


def found_by(path: Path, hooks: str, kv_type: str, **how: Any) -> Estimate:
    window: int = GOLDEN["window_tokens"]
    config = EngineConfig(n_ctx=window, threads=1, hooks=Hooks.parse(hooks), kv_type=kv_type)
    with WindowLogits(path, config) as model:
        windows = Windows.of_text(model.loaded, GOLDEN["text"], window)
        return perplexity(model, windows, **how).ppl


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights in F32, and a token that each window begins with."""
    path = tmp_path_factory.mktemp("golden") / "tiny.gguf"
    path.write_bytes(tiny_llama(shape=Shape(n_embd=128)).data)
    return path


@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("hooks", ["none", "all"])
def test_float_weights_have_the_tools_perplexity(tiny: Path, hooks: str, kv_type: str) -> None:
    value, uncertainty = GOLDEN["perplexity"]["tiny"][kv_type]
    for one_by_one in (False, True):
        found = found_by(tiny, hooks, kv_type, one_by_one=one_by_one)
        assert found.value == pytest.approx(value, rel=1e-3)
        assert found.uncertainty == pytest.approx(uncertainty, rel=5e-3)


def test_quantized_weights_have_the_tools_perplexity(smollm2: Path) -> None:
    """Without hooks to the digits that the tool prints, where the processor is as there.

    Another one sums in another order, which rounds some activations to other 8 bits, as our
    attention does: of 315 tokens that moves the mean by some tenths of a percent.
    """
    value, uncertainty = GOLDEN["perplexity"]["smollm2"]["f16"]
    found = found_by(smollm2, "none", "f16")
    assert found.value == pytest.approx(value, rel=5e-3)
    assert found.uncertainty == pytest.approx(uncertainty, rel=2e-2)
