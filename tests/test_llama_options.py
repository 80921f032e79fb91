"""Arguments of Llama: what has no counterpart here is refused by name, what only tunes is taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orin_llm import Llama
from orin_llm.errors import UsageError

OPTIONS = {"n_ctx": 256, "n_threads": 1}


@pytest.fixture(scope="module")
def llama(smollm2: Path) -> Iterator[Llama]:
    with Llama(str(smollm2), **OPTIONS) as model:
        yield model


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"lora_path": "x.gguf"}, "lora_path='x.gguf' is not supported: merge"),
        ({"embedding": True}, "embedding=True is not supported"),
        ({"draft_model": object()}, "draft_model=.* is not supported: leave it at None"),
        ({"rope_freq_base": 1e6}, "rope_freq_base=1000000.0 is not supported"),
        ({"type_v": 7}, "type_v=7 is not supported: expected 1 .f16., 30 .bf16."),
        ({"n_gpu_layer": 1}, "no argument 'n_gpu_layer'"),
        ({"chat_format": "llama-2"}, "chat_format='llama-2' is not supported"),
        ({"n_ctx": 1 << 20}, "1048576"),
    ],
)
def test_the_constructor_refuses_by_name(
    smollm2: Path, option: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Llama(str(smollm2), **{**OPTIONS, **option})


def test_the_constructor_takes_what_only_tunes(smollm2: Path) -> None:
    tuning = {"verbose": False, "flash_attn": True, "n_threads_batch": 1, "logits_all": True}
    with Llama(str(smollm2), lora_path=None, type_k=8, type_v=2, **tuning, **OPTIONS) as llama:
        assert llama("Hi", max_tokens=1)["usage"]["completion_tokens"] <= 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"suffix": "x"}, "suffix='x' is not supported"),
        ({"typical_p": 0.5}, "typical_p=0.5 is not supported: leave it at 1.0"),
        ({"mirostat_mode": 2}, "mirostat_mode=2 is not supported"),
        ({"grammar": object()}, "grammar=.* is not supported"),
        ({"logits_processor": [print]}, "logits_processor=.* is not supported"),
        ({"echo": True, "logprobs": 1}, "echo=True with logprobs"),
        ({"stop": [""]}, "stop text is empty"),
        ({"top_p": 2.0}, "top_p"),
        ({"logit_bias": {10**6: 1.0}}, "1000000"),
    ],
)
def test_a_completion_refuses_by_name(llama: Llama, option: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        llama("Hi", **option)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format=.* is not supported"),
        ({"functions": [{"name": "f"}]}, "functions=.* is not supported: pass tools"),
        ({"tool_choice": "required"}, "tool_choice='required' is not supported"),
        ({"tfs_z": 0.5}, "tfs_z"),
    ],
)
def test_a_chat_refuses_by_name(llama: Llama, option: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        llama.create_chat_completion([{"role": "user", "content": "Hi"}], **option)
