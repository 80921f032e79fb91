"""Token ids are upstream's, for every kind of text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from orin_llm import _native
from orin_llm.bench.stock import StockPeer
from orin_llm.engine import Engine
from orin_llm.errors import OrinError, UsageError
from orin_llm.upstream import vocab_file

TEXTS = {
    "plain": b"The quick brown fox jumps over the lazy dog.",
    "empty": b"",
    "white space": b"  \t\n\n   x  \r\n",
    "emoji": "👩‍👩‍👧‍👦 🇩🇪 ☕️ 🏳️‍🌈 e\u0301".encode(),
    "CJK": "今日は良い天気です。我喜欢学习。안녕하세요".encode(),
    "right to left": "שלום עולם مرحبا بالعالم".encode(),
    "control tokens typed as text": b"<|im_start|>user\nhi<|im_end|> <|endoftext|>",
    "NULs": b"a\x00b\x00\x00c",
    "not UTF-8": b"\xff\xfe caf\xe9 \x80",
    "a very long word": b"a" * 20000,
    "a megabyte": b"Lorem ipsum dolor sit amet, 12345 (consectetur)! " * 21400,
}


@pytest.fixture(scope="module")
def peer(needs_stock: None, smollm2: Path) -> Iterator[StockPeer]:
    with StockPeer(smollm2, n_ctx=64) as running:
        yield running


@pytest.mark.parametrize("parse_special", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_token_ids_equal_upstream(
    engine: Engine, peer: StockPeer, name: str, parse_special: bool
) -> None:
    text = TEXTS[name]
    ours = engine.tokenize(text, parse_special=parse_special)
    assert ours == peer.tokenize(text, parse_special=parse_special)


@pytest.mark.parametrize("name", [n for n in TEXTS if n != "not UTF-8"])
def test_tokens_turn_back_into_the_text(engine: Engine, name: str) -> None:
    text = TEXTS[name]
    tokens = engine.tokenize(text, add_special=False)
    assert b"".join(engine.token_bytes(t) for t in tokens) == text
    assert engine.detokenize(tokens) == text


def test_control_tokens_typed_as_text_stay_text(engine: Engine) -> None:
    text = "<|im_start|>user"
    as_text = engine.tokenize(text)
    as_control = engine.tokenize(text, parse_special=True)
    start = engine.special_tokens["<|im_start|>"]
    assert start not in as_text
    assert as_control[0] == start
    assert engine.token_bytes(start) == b""
    assert engine.token_bytes(start, special=True) == b"<|im_start|>"


def test_bytes_that_no_tokenizer_can_read_are_an_error(engine: Engine) -> None:
    with pytest.raises(OrinError, match="UTF-8"):
        engine.tokenize(random.Random(7).randbytes(5000))


@pytest.mark.parametrize("name, letter", [("deepseek-llm", "a"), ("falcon", "<")])
def test_a_long_run_of_one_letter_does_not_end_the_process(name: str, letter: str) -> None:
    # These vocabularies split text with std::regex, which recurses for every character.
    model = _native.Model(str(vocab_file(name)), _native.ModelParams(vocab_only=True))
    text = (letter * 300_000).encode()
    tokens = model.tokenize(text, add_special=False, parse_special=False)
    assert model.detokenize(tokens, special=False) == text


def test_what_is_no_text_is_refused(engine: Engine) -> None:
    with pytest.raises(UsageError, match="the text is None: expected str"):
        engine.tokenize(None)  # type: ignore[arg-type]
