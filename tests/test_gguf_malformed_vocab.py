"""Every vocabulary that llama.cpp would assert on or silently accept is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from gguf_bytes import (
    Typed,
    array,
    boolean,
    bpe_vocab,
    spm_vocab,
    string,
    tiny_llama,
    u32,
    vocab_only,
)
from gguf_cases import SMALL, Case, assert_refused, key

NAN = math.nan
T = "tokenizer.ggml"
ONE_LETTER = [chr(c) for c in range(ord("a"), ord("q"))]  # 16 tokens


def bpe(name: str, key: str, value: Typed, says: str) -> Case:
    """One metadata value of a byte-level vocabulary replaced."""
    return Case(name, lambda: vocab_only({**bpe_vocab(40), key: value}), key, f"{key}/value", says)


def lacking(name: str, token: str, settings: Mapping[str, Typed], says: str) -> Case:
    """A vocabulary of one token, too small for the ids that hold where the file gives none."""
    vocab = {f"{T}.model": string("llama"), f"{T}.tokens": array("string", ["a"]), **settings}
    return Case(name, lambda: vocab_only(vocab), f"{T}.{token}", None, says)


VOCABULARY = [
    key("no tokenizer", f"{T}.model", None, "missing, expected the kind of tokenizer"),
    key("tokenizer of a type", f"{T}.model", u32(0), "of type u32, expected string"),
    key("without vocabulary", f"{T}.model", string("none"), "without a vocabulary"),
    key("no tokens", f"{T}.tokens", None, "missing, expected the vocabulary"),
    key("tokens of a type", f"{T}.tokens", array("u32", [1]), "of type array of u32"),
    key("tokens not an array", f"{T}.tokens", string("a"), "of type string"),
    key("zero tokens", f"{T}.tokens", array("string", []), "0 tokens, expected at least 1"),
    key(
        "token twice", f"{T}.tokens", array("string", ["a", *ONE_LETTER[:-1]]), "'a' is there twice"
    ),
    key("twice as C strings", f"{T}.tokens", array("string", ["a\0x", *ONE_LETTER[:-1]]), "twice"),
    key(
        "twice when empty",
        f"{T}.tokens",
        array("string", ["[EMPTY_1]", "", *ONE_LETTER[:-2]]),
        "there twice",
    ),
    key("long token", f"{T}.tokens", array("string", ["x" * 4097, "y"]), "(max_token_bytes)"),
    key("scores of i8", f"{T}.scores", array("i8", [0] * 16), "of type array of i8"),
    key("scores too few", f"{T}.scores", array("f32", [0] * 15), "an array of 15 for 16 tokens"),
    key("scores too many", f"{T}.scores", array("f32", [0] * 17), "an array of 17 for 16 tokens"),
    key(
        "score NaN", f"{T}.scores", array("f32", [NAN] * 16), "the score of token 0 is not a number"
    ),
    key("types of i8", f"{T}.token_type", array("i8", [1] * 16), "of type array of i8"),
    key("types too few", f"{T}.token_type", array("i32", [1] * 15), "an array of 15 for 16 tokens"),
    key("type 7", f"{T}.token_type", array("i32", [7] * 16), "token 0 has type 7, expected 0 to 6"),
    key("type -1", f"{T}.token_type", array("i32", [-1] * 16), "token 0 has type -1"),
    Case(
        "bytes without names of bytes",
        lambda: tiny_llama(metadata={f"{T}.token_type": array("i32", [6] * 16)}, **SMALL),
        f"{T}.tokens",
        f"{T}.tokens/value",
        "token 0 is a byte named '<unk>'",
    ),
    *(
        Case(
            f"byte token {name}",
            lambda name=name: vocab_only(
                {
                    **spm_vocab(16),
                    f"{T}.tokens": array("string", [name, *ONE_LETTER[1:]]),
                    f"{T}.token_type": array("i32", [6] + [1] * 15),
                }
            ),
            f"{T}.tokens",
            f"{T}.tokens/value",
            f"token 0 is a byte named '{name}'",
        )
        for name in ("<0x-1>", "<0xZZ>", "<0x1>", "<0x", "<0x100>", "0x41")
    ),
    key("BOS outside", f"{T}.bos_token_id", u32(16), "token 16, but the vocabulary has 16"),
    key("EOS outside", f"{T}.eos_token_id", u32(2**31), "but the vocabulary has 16"),
    key("EOT outside", f"{T}.eot_token_id", u32(99), "token 99"),
    key("unknown outside", f"{T}.unknown_token_id", u32(99), "token 99"),
    key("BOS of a type", f"{T}.bos_token_id", Typed("i32", 1), "of type i32, expected u32"),
    key("padding of a type", f"{T}.padding_token_id", string("x"), "of type string"),
    key("BOS added of a type", f"{T}.add_bos_token", u32(1), "of type u32, expected bool"),
    lacking("BOS added but none", "bos_token_id", {}, "adds it (add_bos_token)"),
    lacking(
        "EOS added but none",
        "eos_token_id",
        {f"{T}.bos_token_id": u32(0), f"{T}.add_eos_token": boolean(True)},
        "adds it (add_eos_token)",
    ),
    bpe("merges of a type", f"{T}.merges", array("u32", [1]), "of type array of u32"),
    bpe("merge without space", f"{T}.merges", array("string", ["a b", "ab"]), "merge 1 is 'ab'"),
    bpe("empty merge", f"{T}.merges", array("string", [""]), "merge 0 is ''"),
    bpe("merge without left", f"{T}.merges", array("string", [" b"]), "merge 0 is ' b'"),
    bpe("merge without right", f"{T}.merges", array("string", ["b "]), "merge 0 is 'b '"),
    Case(
        "no merges",
        lambda: vocab_only({k: v for k, v in bpe_vocab(40).items() if not k.endswith("merges")}),
        f"{T}.merges",
        None,
        "missing, expected the merges of a 'gpt2' tokenizer",
    ),
    key("charsmap of a type", f"{T}.precompiled_charsmap", u32(1), "of type u32"),
    key("short charsmap", f"{T}.precompiled_charsmap", array("u8", [1, 0]), "in an array of 2"),
    key("charsmap beyond", f"{T}.precompiled_charsmap", array("u8", [255] * 8), "in an array of 8"),
    key("suppressed of a type", f"{T}.suppress_tokens", array("u32", [1]), "expected array of i32"),
]


@pytest.mark.parametrize("case", VOCABULARY, ids=lambda case: case.name)
def test_a_malformed_vocabulary_is_refused_with_field_and_offset(
    case: Case, tmp_path: Path
) -> None:
    assert_refused(case, tmp_path / "broken.gguf")
