"""Text from outside is decoded strictly, and what is refused is named."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.errors import OrinError, UsageError
from orin_llm.text.encoding_guess import likely_encoding
from orin_llm.text.text_input import (
    MAX_TEXT_BYTES,
    argument_text,
    decode_text,
    read_text,
    read_text_file,
)

SAMPLES = [
    ("cp1252", "Le café est très bon. Déjà vu, garçon !"),
    ("cp1252", "café"),
    ("cp1252", "Schöne Grüße – und “gute” Übung"),
    ("cp1251", "Привет, как дела? Расскажи мне о Москве."),
    ("koi8-r", "Привет, как дела? Расскажи мне о Москве."),
    ("cp866", "Привет, как дела? Расскажи мне о Москве."),
    ("cp1253", "Καλημέρα, τι κάνεις σήμερα; Πες μου για την Αθήνα."),
    ("cp932", "こんにちは、世界。日本の首都はどこですか?"),
    ("euc_jp", "こんにちは、世界。日本の首都はどこですか?"),
    ("gb18030", "你好,世界。请告诉我中国的首都是哪里?"),
    ("big5", "你好,世界。請告訴我台灣的首都在哪裡?"),
    ("euc_kr", "안녕하세요, 세계. 한국의 수도는 어디입니까?"),
    ("utf-16", "hello world"),
    ("utf-16-le", "hello world"),
    ("utf-16-be", "hello world"),
    ("utf-32", "hello"),
]


@pytest.mark.parametrize("encoding, text", SAMPLES)
def test_text_in_another_encoding_is_refused_with_the_encoding_that_reads_it(
    encoding: str, text: str
) -> None:
    data = text.encode(encoding)
    with pytest.raises(OrinError, match=rf"notes is not UTF-8: .*--encoding {encoding}$"):
        decode_text(data, "notes")
    assert decode_text(data, "notes", encoding) == text


def test_the_error_names_the_byte_and_its_offset() -> None:
    with pytest.raises(OrinError, match="byte 0xE9 at offset 6;"):
        decode_text(b"un caf\xe9 noir", "notes")
    with pytest.raises(OrinError, match="byte 0xE9 at offset 6;"):
        decode_text(b"\xef\xbb\xbfcaf\xe9", "notes")


def test_a_large_model_is_called_one_and_not_a_long_text() -> None:
    with pytest.raises(OrinError, match=r"^big\.gguf is a GGUF model, not text$"):
        read_text(io.BytesIO(b"GGUF" + bytes(MAX_TEXT_BYTES)), "big.gguf")


def test_utf8_that_is_cut_off_is_told_from_another_encoding() -> None:
    with pytest.raises(
        OrinError, match=r"offset 7; it looks like UTF-8 that is damaged or cut off"
    ):
        decode_text("naïve é".encode()[:-1], "notes")


@pytest.mark.parametrize("mark, encoding", [("", None), ("\ufeff", None), ("\ufeff", "utf-8")])
def test_utf8_reads_with_and_without_its_mark(mark: str, encoding: str | None) -> None:
    assert (
        decode_text(f"{mark}naïve 🙂 日本\r\n".encode(), "notes", encoding) == "naïve 🙂 日本\r\n"
    )


@pytest.mark.parametrize(
    "data, kind",
    [
        (b"GGUF\x03\0\0\0", "a GGUF model"),
        (b"\x7fELF\x02\x01\x01\0", "an ELF program"),
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b"\x1f\x8b\x08\x08\xff\xfe", "a gzip archive"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", "a PDF document"),
        (b"abc\0def", "a binary file .a zero byte at offset 3."),
    ],
)
def test_binary_data_is_refused_as_such(data: bytes, kind: str) -> None:
    with pytest.raises(OrinError, match=f"^notes is {kind}.*not text"):
        decode_text(data, "notes")


def test_an_encoding_does_not_make_text_of_a_model_file() -> None:
    with pytest.raises(OrinError, match="a GGUF model"):
        decode_text(b"GGUF\x03\0\0\0", "notes", "latin-1")


def test_text_that_begins_like_a_binary_format_is_text() -> None:
    assert (
        decode_text(b"GGUF is a file format. Explain.", "notes")
        == "GGUF is a file format. Explain."
    )


def test_zero_bytes_pass_when_the_encoding_is_given() -> None:
    assert decode_text(b"a\0b", "notes", "utf-8") == "a\0b"


@pytest.mark.parametrize("encoding", ["no-such", "hex", "zlib", "a\0b", ""])
def test_an_unknown_encoding_is_a_usage_error(encoding: str) -> None:
    with pytest.raises(UsageError, match="unknown encoding"):
        decode_text(b"text", "notes", encoding)


def test_bytes_that_are_not_in_the_given_encoding_are_located() -> None:
    with pytest.raises(OrinError, match="not in ascii at offset 3"):
        decode_text("caf\u00e9".encode("cp1252"), "notes", "ascii")


def test_an_argument_with_foreign_bytes_is_refused_like_a_file() -> None:
    value = "café".encode("cp1252").decode("utf-8", "surrogateescape")
    with pytest.raises(OrinError, match="the prompt is not UTF-8: byte 0xE9 at offset 3"):
        argument_text(value, "the prompt")
    assert argument_text(value, "the prompt", "cp1252") == "café"


def test_reading_ends_at_the_limit() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            assert size >= 0
            self.given += size
            return b"a" * size

    with pytest.raises(OrinError, match="longer than 64 MiB"):
        read_text(Endless(), "the stream")  # type: ignore[arg-type]
    assert Endless.given + MAX_TEXT_BYTES < 2 * MAX_TEXT_BYTES


def test_what_is_no_readable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OrinError, match="is a directory"):
        read_text_file(tmp_path)
    with pytest.raises(OrinError, match=r"cannot read .*absent: No such file"):
        read_text_file(tmp_path / "absent")


@given(st.binary(max_size=400), st.sampled_from([None, "utf-8", "cp1252", "utf-16", "shift_jis"]))
def test_any_bytes_are_either_text_or_an_error_of_ours(data: bytes, encoding: str | None) -> None:
    try:
        text = decode_text(data, "notes", encoding)
    except OrinError:
        return
    assert text.encode() is not None
    if encoding is None:
        assert text.encode() == data.removeprefix(b"\xef\xbb\xbf")


@given(st.binary(min_size=1, max_size=400), st.integers(0, 399))
def test_the_likely_encoding_can_read_the_data(data: bytes, first_bad: int) -> None:
    encoding = likely_encoding(data, min(first_bad, len(data) - 1))
    if encoding:
        # The last character of a sample may be cut, and a sample begins at a line.
        line = data.rfind(b"\n", 0, min(first_bad, len(data) - 1)) + 1
        assert any(_reads(data[line : len(data) - cut], encoding) for cut in range(4))


def _reads(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
