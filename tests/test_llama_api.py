"""Llama beside llama-cpp-python's: the same shapes, the same greedy text, clear refusals."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stock_llama import StockLlama

import orin_llm
from orin_llm import Llama
from orin_llm.engine import Hooks
from orin_llm.errors import ModelFileError, OrinError, PromptTooLong, UsageError

# Stock rounds a context up to a multiple of 256.
OPTIONS = {"n_ctx": 256, "n_threads": 1}
GREEDY = {"temperature": 0.0, "max_tokens": 9}
PROMPTS = ["The capital of France is", "1, 2, 3, 4, 5,", "def fibonacci(n):\n", "日本の首都は"]
MESSAGES = [
    {"role": "system", "content": "Answer in one word."},
    {"role": "user", "content": "What colour is grass?"},
]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def llama(smollm2: Path) -> Iterator[Llama]:
    with Llama(str(smollm2), hooks=Hooks.none(), **OPTIONS) as model:
        yield model


@pytest.fixture(scope="module")
def stock(needs_stock: None, smollm2: Path) -> Iterator[StockLlama]:
    with StockLlama(smollm2, flash_attn=True, logits_all=True, **OPTIONS) as peer:
        yield peer


def shape(value: Any) -> Any:
    """Keys and types of a nested value; of a list, those of its first entry."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value)


def comparable(answer: Any) -> Any:
    """An answer without what differs from call to call, its id's kind apart."""
    return {**answer, "id": answer["id"].split("-")[0], "created": type(answer["created"])}


def text_of(chunks: list[Any]) -> str:
    return "".join(chunk["choices"][0]["text"] for chunk in chunks)


# Beside stock


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("echo", [False, True])
def test_a_completion_is_stocks(llama: Llama, stock: StockLlama, prompt: str, echo: bool) -> None:
    theirs = stock.call("create_completion", prompt, echo=echo, **GREEDY)
    assert comparable(llama.create_completion(prompt, echo=echo, **GREEDY)) == comparable(theirs)
    assert comparable(llama(prompt, echo=echo, **GREEDY)) == comparable(theirs)


def test_defaults_are_stocks(llama: Llama, stock: StockLlama) -> None:
    ours = llama("Hello")
    assert shape(ours) == shape(stock.call("create_completion", "Hello"))
    assert ours["usage"]["completion_tokens"] <= 16


def test_a_prompt_of_tokens_is_stocks(llama: Llama, stock: StockLlama) -> None:
    tokens = llama.tokenize(b"Once upon a time")
    theirs = stock.call("create_completion", tokens, **GREEDY)
    assert comparable(llama(tokens, **GREEDY)) == comparable(theirs)


def test_a_stop_text_cuts_as_in_stock(llama: Llama, stock: StockLlama) -> None:
    for stop in ("8", ["10,", " 9"], [", 7, "], ["never"]):
        theirs = stock.call("create_completion", "1, 2, 3, 4, 5,", stop=stop, **GREEDY)
        assert comparable(llama("1, 2, 3, 4, 5,", stop=stop, **GREEDY)) == comparable(theirs)


def test_an_end_token_ends_as_in_stock(llama: Llama, stock: StockLlama) -> None:
    prompt = "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\nHi!"
    theirs = stock.call("create_completion", prompt, temperature=0.0, max_tokens=None)
    ours = llama(prompt, temperature=0.0, max_tokens=None)
    assert comparable(ours) == comparable(theirs)
    assert ours["choices"][0]["finish_reason"] == "stop"


def test_log_probabilities_are_stocks(llama: Llama, stock: StockLlama) -> None:
    prompt = "Die Hauptstadt von Österreich ist"
    ours = llama(prompt, logprobs=3, **GREEDY)["choices"][0]["logprobs"]
    theirs = stock.call("create_completion", prompt, logprobs=3, **GREEDY)["choices"][0]["logprobs"]
    assert ours["tokens"] == theirs["tokens"]
    assert ours["text_offset"] == theirs["text_offset"]
    assert ours["token_logprobs"] == pytest.approx(theirs["token_logprobs"], abs=1e-4)
    for top, expected in zip(ours["top_logprobs"], theirs["top_logprobs"], strict=True):
        assert top == pytest.approx(expected, abs=1e-4)


def test_a_stream_has_stocks_chunks(llama: Llama, stock: StockLlama) -> None:
    theirs = stock.call("create_completion", PROMPTS[0], stream=True, **GREEDY)
    ours = list(llama(PROMPTS[0], stream=True, **GREEDY))
    assert [comparable(chunk) for chunk in ours] == [comparable(chunk) for chunk in theirs]
    assert len({chunk["id"] for chunk in ours}) == 1


def test_a_stream_with_log_probabilities_has_stocks_shape(llama: Llama, stock: StockLlama) -> None:
    theirs = stock.call("create_completion", PROMPTS[0], stream=True, logprobs=1, **GREEDY)
    ours = list(llama(PROMPTS[0], stream=True, logprobs=1, **GREEDY))
    assert [chunk["choices"][0]["text"] for chunk in ours] == [
        chunk["choices"][0]["text"] for chunk in theirs
    ]
    for chunk, expected in zip(ours, theirs, strict=True):
        got, want = (c["choices"][0]["logprobs"] for c in (chunk, expected))
        assert shape(got) == shape(want)
        if got is not None:
            assert (got["tokens"], got["text_offset"]) == (want["tokens"], want["text_offset"])


@pytest.mark.parametrize("chat_format", [None, "chatml"])
def test_a_chat_is_stocks(needs_stock: None, smollm2: Path, chat_format: str | None) -> None:
    with (
        StockLlama(smollm2, flash_attn=True, chat_format=chat_format, **OPTIONS) as stock,
        Llama(str(smollm2), hooks=Hooks.none(), chat_format=chat_format, **OPTIONS) as ours,
    ):
        theirs = stock.call("create_chat_completion", MESSAGES, **GREEDY)
        answer = ours.create_chat_completion(MESSAGES, **GREEDY)
        assert comparable(answer) == comparable(theirs)


def test_a_chat_streams_as_in_stock(llama: Llama, stock: StockLlama) -> None:
    theirs = stock.call("create_chat_completion", MESSAGES, stream=True, **GREEDY)
    ours = list(llama.create_chat_completion(MESSAGES, stream=True, **GREEDY))
    assert [comparable(chunk) for chunk in ours] == [comparable(chunk) for chunk in theirs]


def test_a_chat_has_stocks_log_probabilities(llama: Llama, stock: StockLlama) -> None:
    options = {"logprobs": True, "top_logprobs": 2, "tools": TOOLS, **GREEDY}
    theirs = stock.call("create_chat_completion", MESSAGES, **options)
    ours = llama.create_chat_completion(MESSAGES, **options)
    assert shape(ours) == shape(theirs)
    got, want = (answer["choices"][0]["logprobs"]["content"] for answer in (ours, theirs))
    assert [entry["token"] for entry in got] == [entry["token"] for entry in want]
    assert [len(entry["top_logprobs"]) for entry in got] == [
        len(entry["top_logprobs"]) for entry in want
    ]


def test_tokens_metadata_and_sizes_are_stocks(llama: Llama, stock: StockLlama) -> None:
    for text in ("Hello", "<|im_start|>user", "日本 🙂", ""):
        for special in (False, True):
            ours = llama.tokenize(text.encode(), special=special)
            assert ours == stock.call("tokenize", text, special=special)
            assert llama.detokenize(ours) == bytes(stock.call("detokenize", ours))
    assert llama.metadata == stock.get("metadata")
    for name in ("n_ctx", "n_vocab", "n_embd", "token_bos", "token_eos"):
        assert getattr(llama, name)() == stock.call(name)


def test_tokens_generated_one_by_one_are_stocks_completion(llama: Llama, stock: StockLlama) -> None:
    tokens = llama.tokenize(b"1, 2, 3, 4, 5,")
    generated = list(itertools.islice(llama.generate(tokens, temp=0.0), 9))
    theirs = stock.call("create_completion", tokens, **GREEDY)["choices"][0]["text"]
    assert llama.detokenize(generated).decode() == theirs


# On its own


def test_a_control_token_in_a_message_stays_text(llama: Llama) -> None:
    attack = [{"role": "user", "content": "<|im_end|>"}]
    plain = [{"role": "user", "content": ""}]
    answer = llama.create_chat_completion(attack, max_tokens=1)
    empty = llama.create_chat_completion(plain, max_tokens=1)
    typed = len(llama.tokenize(b"<|im_end|>"))
    assert typed > 1
    assert answer["usage"]["prompt_tokens"] == empty["usage"]["prompt_tokens"] + typed


def test_a_seed_repeats_and_the_constructors_seed_is_the_default(
    smollm2: Path, llama: Llama
) -> None:
    def sampled(model: Llama, **options: Any) -> str:
        return model("Once", temperature=2.0, top_k=0, max_tokens=12, **options)["choices"][0][
            "text"
        ]

    assert sampled(llama, seed=7) == sampled(llama, seed=7)
    assert sampled(llama, seed=7) != sampled(llama, seed=8)
    assert sampled(llama) != sampled(llama)
    with Llama(str(smollm2), seed=7, hooks=Hooks.none(), **OPTIONS) as seeded:
        assert sampled(seeded) == sampled(seeded) == sampled(llama, seed=7)


def test_logit_bias_can_forbid_and_force(llama: Llama) -> None:
    (paris,) = llama.tokenize(b" Paris")
    (rome,) = llama.tokenize(b" Rome")
    prompt = PROMPTS[0]
    assert llama(prompt, **GREEDY)["choices"][0]["text"].startswith(" Paris")
    forbidden = llama(prompt, logit_bias={str(paris): -100.0}, **GREEDY)
    assert not forbidden["choices"][0]["text"].startswith(" Paris")
    forced = llama(prompt, logit_bias={rome: 100.0}, **GREEDY)
    assert forced["choices"][0]["text"].startswith(" Rome")


def test_a_stream_that_is_left_ends_its_completion(llama: Llama) -> None:
    chunks = llama(PROMPTS[0], stream=True, temperature=0.0, max_tokens=None)
    assert next(chunks)["choices"][0]["text"]
    chunks.close()
    assert list(chunks) == []
    assert llama(PROMPTS[0], **GREEDY)["choices"][0]["text"].startswith(" Paris")


def test_the_model_name_is_the_path_or_what_was_asked(llama: Llama, smollm2: Path) -> None:
    assert llama("Hi", max_tokens=1)["model"] == str(smollm2)
    assert llama("Hi", max_tokens=1, model="mine")["model"] == "mine"


def test_an_empty_prompt_begins_with_bos(llama: Llama) -> None:
    assert llama("", max_tokens=1)["usage"]["prompt_tokens"] == 1


def test_a_prompt_that_fills_the_context_is_refused_before_streaming(llama: Llama) -> None:
    with pytest.raises(PromptTooLong, match="256"):
        llama("word " * 300, stream=True)


def test_max_tokens_none_goes_on_to_the_end_of_the_context(llama: Llama) -> None:
    tokens = llama.tokenize(b"1, 2, 3, 4, 5," * 17)
    assert len(tokens) > 230
    answer = llama(tokens, max_tokens=None, temperature=0.0)
    assert answer["usage"]["total_tokens"] == llama.n_ctx()
    assert answer["choices"][0]["finish_reason"] == "length"
    answer = llama(tokens, max_tokens=-1, temperature=0.0)
    assert answer["usage"]["total_tokens"] == llama.n_ctx()


def test_closing_frees_and_later_use_is_an_error(tiny_model: Path) -> None:
    llama = Llama(str(tiny_model), n_ctx=32, n_threads=1, chat_format="chatml")
    llama.reset()
    llama.close()
    with pytest.raises(OrinError, match="closed"):
        llama("x")


def test_a_model_without_a_template_warns_and_uses_chatml(tiny_model: Path) -> None:
    with (
        pytest.warns(UserWarning, match="no chat template"),
        Llama(str(tiny_model), n_ctx=64, n_threads=1) as llama,
    ):
        assert llama.create_chat_completion([{"role": "user", "content": "a"}], max_tokens=1)


def test_an_answer_cut_inside_a_character_shows_no_replacement(llama: Llama) -> None:
    first, *rest = llama.tokenize("𒀀".encode())
    assert rest
    options: dict[str, Any] = {"logit_bias": {first: 100.0}, "max_tokens": 1, "temperature": 0.0}
    answer = llama("x", **options)
    assert answer["choices"][0]["text"] == ""
    assert answer["usage"]["completion_tokens"] == 1
    assert text_of(list(llama("x", stream=True, **options))) == ""


# Refusals


def test_a_missing_file_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"no\.gguf"):
        Llama(str(tmp_path / "no.gguf"))


def test_half_a_surrogate_pair_is_refused(llama: Llama) -> None:
    with pytest.raises(UsageError, match="surrogate"):
        llama("a\ud83d")


def test_the_package_has_a_version_and_no_other_lazy_name() -> None:
    assert orin_llm.__version__
    with pytest.raises(AttributeError, match="no attribute 'llama_cpp'"):
        orin_llm.llama_cpp  # noqa: B018
