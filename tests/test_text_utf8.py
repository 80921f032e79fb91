"""Bytes to text over token borders: the same as decoding all bytes at once."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from orin_llm.text.utf8 import Utf8Stream

# Lead and continuation bytes are likelier here than in random bytes, so that sequences get long.
TRICKY_BYTES = st.lists(
    st.sampled_from([0x41, 0x80, 0xBF, 0xC2, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF, 0xA0, 0x9F]),
    max_size=12,
).map(bytes)
ANY_BYTES = st.one_of(TRICKY_BYTES, st.binary(max_size=40), st.text(max_size=20).map(str.encode))


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@given(ANY_BYTES, st.lists(st.integers(0, 40), max_size=12))
def test_any_split_decodes_as_the_whole(data: bytes, cuts: list[int]) -> None:
    stream = Utf8Stream()
    text = "".join(stream.push(piece) for piece in split_at(data, cuts))
    # A letter ends a sequence that would otherwise wait for more.
    text += stream.push(b"A")
    assert text == (data + b"A").decode("utf-8", errors="replace")


@given(st.text(max_size=30))
def test_valid_text_byte_by_byte_never_shows_a_replacement(text: str) -> None:
    stream = Utf8Stream()
    pieces = [stream.push(bytes([byte])) for byte in text.encode()]
    assert "".join(pieces) == text


def test_a_character_waits_for_its_last_byte() -> None:
    stream = Utf8Stream()
    assert [stream.push(bytes([byte])) for byte in "🙂".encode()] == ["", "", "", "🙂"]


def test_a_byte_that_cannot_go_on_is_replaced_at_once() -> None:
    stream = Utf8Stream()
    assert stream.push(b"\xf0\x9f") == ""
    assert stream.push(b"A") == "\ufffdA"
    assert stream.push(b"\xff") == "\ufffd"


def test_an_unfinished_character_at_the_end_shows_nothing() -> None:
    assert Utf8Stream().push(b"a\xe2\x82") == "a"
