"""Which encoding a text that is not UTF-8 is likely in: a guess, but one that can read it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

SAMPLE_BYTES = 1 << 16
_LOOK_BACK = 1 << 12

BYTE_ORDER_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def marked_encoding(data: bytes) -> str | None:
    """The encoding that a byte order mark announces, other than UTF-8's own."""
    return next((name for mark, name in BYTE_ORDER_MARKS if data.startswith(mark)), None)


def unmarked_utf16(data: bytes) -> str | None:
    """UTF-16 without a mark, told by zeros in every second byte (text that is mostly Latin)."""
    sample = data[:SAMPLE_BYTES]
    half = len(sample) // 2
    if half == 0 or len(data) % 2:
        return None
    even, odd = sample[0::2].count(0) / half, sample[1::2].count(0) / half
    name = (
        "utf-16-le"
        if odd > 0.5 and even < 0.05
        else "utf-16-be"
        if even > 0.5 and odd < 0.05
        else None
    )
    return name if name and _decoded(sample, name) is not None else None


def is_damaged_utf8(data: bytes) -> bool:
    """Whether most of what is not ASCII is UTF-8, so that the rest is damage."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return sum(character > "\x7f" for character in text) - broken >= broken


def likely_encoding(data: bytes, first_bad: int) -> str | None:
    """Name the 8-bit or multi-byte encoding that `data`, not UTF-8 at `first_bad`, is likely in.

    Only a name with which the sample decodes without an error is returned; None if there is none.
    """
    line = data.rfind(b"\n", 0, first_bad) + 1
    start = max(line, first_bad - _LOOK_BACK)
    sample = data[start : start + SAMPLE_BYTES]
    for candidates in (_WIDE, _OTHER_ALPHABETS):
        scores = {name: _score(sample, name, rate) for name, rate in candidates.items()}
        best = max(scores, key=lambda name: scores[name])
        if scores[best] >= 0.8:
            return best
    return "cp1252" if _decoded(sample, "cp1252") is not None else None


def _decoded(sample: bytes, encoding: str) -> str | None:
    """The sample's text, where its last character may be cut; None if it is not in `encoding`."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return None


def _score(sample: bytes, encoding: str, rate: Callable[[str, str], float]) -> float:
    text = _decoded(sample, encoding)
    foreign = "".join(character for character in text or "" if character > "\x7f")
    return rate(text, foreign) if text and foreign else 0.0


def _share(pattern: str, foreign: str) -> float:
    return len(re.findall(pattern, foreign)) / len(foreign)


def _japanese(_text: str, foreign: str) -> float:
    """Full-width kana are in every Japanese sentence; half-width ones come of misreading."""
    if _share("[\u3041-\u30ff]", foreign) < 0.15:
        return 0.0
    return _share("[\u3000-\u30ff\u4e00-\u9fff\uff01-\uff5e]", foreign)


def _in_rows(codec: str, first: int, last: int) -> Callable[[str, str], float]:
    """Share of characters in the rows of the most used ideographs or of punctuation."""

    def rate(_text: str, foreign: str) -> float:
        rows = [character.encode(codec, "replace")[0] for character in foreign]
        punctuation = sum(0xA1 <= row <= 0xA3 for row in rows)
        common = sum(first <= row <= last for row in rows)
        return (common + punctuation) / len(rows) if common > punctuation else 0.0

    return rate


def _alphabet(letters: str) -> Callable[[str, str], float]:
    """Share of words with a foreign letter that are all of that alphabet and have a word's case."""

    def rate(text: str, foreign: str) -> float:
        words = [word for word in re.findall(r"[^\W\d_]+", text) if not word.isascii()]
        good = sum(
            bool(re.fullmatch(f"[{letters}]+", word))
            and (word.islower() or word.istitle() or (len(word) > 1 and word.isupper()))
            for word in words
        )
        return _share(f"[{letters}]", foreign) * good / len(words) if words else 0.0

    return rate


_WIDE: dict[str, Callable[[str, str], float]] = {
    "cp932": _japanese,
    "euc_jp": _japanese,
    "euc_kr": _in_rows("euc_kr", 0xB0, 0xC8),  # before Chinese, whose rows contain these
    "gb18030": _in_rows("gb2312", 0xB0, 0xD7),
    "big5": _in_rows("big5", 0xA4, 0xC6),
}
_OTHER_ALPHABETS: dict[str, Callable[[str, str], float]] = {
    "cp1251": _alphabet("\u0400-\u045f"),
    "koi8-r": _alphabet("\u0400-\u045f"),
    "cp866": _alphabet("\u0400-\u045f"),
    "cp1253": _alphabet("\u0370-\u03ff"),
}
