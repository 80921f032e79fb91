"""Text from outside: bounded, decoded strictly, with errors that say what the bytes look like."""

from __future__ import annotations

import codecs
import os
from pathlib import Path
from typing import BinaryIO

from orin_llm.errors import OrinError, UsageError
from orin_llm.text.encoding_guess import (
    is_damaged_utf8,
    likely_encoding,
    marked_encoding,
    unmarked_utf16,
)

MAX_TEXT_BYTES = 64 << 20  # far beyond any context; keeps `-f /dev/zero` from filling memory

_BINARY_KINDS = (
    (b"GGUF", "a GGUF model"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"SQLite format 3", "an SQLite database"),
)


def read_text_file(path: Path, encoding: str | None = None, *, purpose: str = "a prompt") -> str:
    """The text of a file; OrinError where it cannot be opened or is not text."""
    try:
        with path.open("rb") as stream:
            return read_text(stream, str(path), encoding, purpose=purpose)
    except IsADirectoryError:
        raise OrinError(f"{path} is a directory: expected a text file") from None
    except OSError as error:
        raise OrinError(f"cannot read {path}: {error.strerror}") from None


def read_text(
    stream: BinaryIO, source: str, encoding: str | None = None, *, purpose: str = "a prompt"
) -> str:
    """All text of a stream, at most MAX_TEXT_BYTES; `source` and `purpose` are for errors."""
    data = stream.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        if kind := _binary_kind(data[:4096]):
            raise OrinError(f"{source} is {kind}, not text")
        raise OrinError(
            f"{source} is longer than {MAX_TEXT_BYTES >> 20} MiB: too long for {purpose}"
        )
    return decode_text(data, source, encoding)


def argument_text(value: str, source: str, encoding: str | None = None) -> str:
    """A command-line argument as text: its bytes may be in no encoding that the shell promised."""
    return decode_text(os.fsencode(value), source, encoding)


def decode_text(data: bytes, source: str, encoding: str | None = None) -> str:
    """Decode strictly, as UTF-8 unless an encoding is given; a byte order mark is left out.

    Raises:
        OrinError: binary data, or bytes that are not in the encoding; the message has the byte
            offset and the likely encoding.
        UsageError: an encoding that Python does not know.
    """
    if encoding is not None:
        return _decode_as(data, source, encoding)
    if name := marked_encoding(data):
        raise _not_utf8(data, source, 0, f"it has the byte order mark of {name.upper()}", name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _explain(data, source, _utf8_offset(data, error)) from None
    if "\0" in text:
        if name := unmarked_utf16(data):
            raise _not_utf8(data, source, data.index(0), f"it looks like {name.upper()}", name)
        _refuse_binary(data, source)
    return text


def _decode_as(data: bytes, source: str, encoding: str) -> str:
    if kind := _binary_kind(data):
        raise OrinError(f"{source} is {kind}, not text")
    try:
        text = data.decode(encoding)
        text.encode("utf-8")  # some codecs make lone surrogates, which are no text
    except UnicodeError as error:
        where = f" at offset {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        reason = getattr(error, "reason", error)
        raise OrinError(f"{source} is not in {encoding}{where}: {reason}") from None
    except (LookupError, ValueError):  # LookupError also for codecs that are not text, such as hex
        raise UsageError(
            f"unknown encoding {encoding!r}: expected a name such as utf-8, utf-16, cp1252, gb18030"
        ) from None
    return text.removeprefix("\ufeff")


def _explain(data: bytes, source: str, offset: int) -> OrinError:
    """The error for bytes that are not UTF-8 at `offset`."""
    if name := unmarked_utf16(data):
        return _not_utf8(data, source, offset, f"it looks like {name.upper()}", name)
    if b"\0" in data or _binary_kind(data):
        _refuse_binary(data, source)
    if is_damaged_utf8(data):
        return _not_utf8(
            data, source, offset, "it looks like UTF-8 that is damaged or cut off there", None
        )
    if name := likely_encoding(data, offset):
        return _not_utf8(data, source, offset, f"it looks like {name}", name)
    return _not_utf8(data, source, offset, "it may be binary", None)


def _not_utf8(data: bytes, source: str, offset: int, guess: str, encoding: str | None) -> OrinError:
    advice = f": read it with --encoding {encoding}" if encoding else ""
    return OrinError(
        f"{source} is not UTF-8: byte 0x{data[offset]:02X} at offset {offset}; {guess}{advice}"
    )


def _utf8_offset(data: bytes, error: UnicodeDecodeError) -> int:
    """Where in the data the error is: the codec does not count a mark that it skipped."""
    return error.start + (len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)


def _refuse_binary(data: bytes, source: str) -> None:
    if kind := _binary_kind(data):
        raise OrinError(f"{source} is {kind}, not text")
    raise OrinError(
        f"{source} is a binary file (a zero byte at offset {data.index(0)}), not text; "
        "if it is text, give its --encoding"
    )


def _binary_kind(data: bytes) -> str | None:
    """What a well-known binary file is, by its first bytes; a text that begins like one is not."""
    kind = next((kind for magic, kind in _BINARY_KINDS if data.startswith(magic)), None)
    if kind and b"\0" not in data[:4096]:
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return kind
        return None
    return kind
