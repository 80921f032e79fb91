"""What is left in a text that was cleaned: known values are spelled out and searched, apart from
the readings by which they were taken out, so that a fault of those is seen."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from board_check.secret import PLACEHOLDER, Secret

_SEPARATED = ("path", "ip", "email")  # without their marks other text is written like them
_BORDERS = {"path": ("", r"(?![^\W_])"), "ip": (r"(?<![0-9])(?<![0-9]\.)", r"(?!\.?[0-9])")}
_FEWEST = 8  # characters that are searched within others; of digits alone
_FEWEST_DIGITS, _FEWEST_DIFFERENT = 10, 4
_FEWEST_BYTES = 6  # of a value that is searched as its bytes


def leaks(text: str, secrets: Iterable[Secret]) -> list[str]:
    """Kinds of known values that are in a redacted text all the same, whatever separates or folds
    them; short ones and names only where they are words."""
    squeezed = _Squeezed(PLACEHOLDER.sub("\n", text))
    return sorted({secret.kind for secret in secrets if squeezed.has(secret)})


@dataclass(frozen=True)
class _Squeezed:
    written: str

    @cached_property
    def dense(self) -> str:
        return re.sub(r"\x1b\[[\d;]*[a-zA-Z]|\s", "", self.written).lower()

    @cached_property
    def bare(self) -> str:
        return _bare(self.dense)

    @cached_property
    def base64(self) -> str:
        return re.sub(r"[^A-Za-z0-9+/]", "", self.written.replace("-", "+").replace("_", "/"))

    def has(self, secret: Secret) -> bool:
        value = secret.value.strip()
        data = value.encode(errors="replace")
        if len(data) >= _FEWEST_BYTES and (
            any(form in self.bare for form in _in_hex(value))
            or any(form in self.base64 for form in _in_base64(data))
        ):
            return True
        bare = _bare(value.lower())
        few = bare.isdecimal() and len(set(bare)) < _FEWEST_DIFFERENT
        if secret.is_name or not secret.is_sure or few:
            word = rf"(?<![^\W_]){re.escape(value)}(?![^\W_])"
            return re.search(word, self.written, re.IGNORECASE) is not None
        if secret.kind in _SEPARATED:
            folded = r"\s*".join(map(re.escape, "".join(value.split())))
            before, after = _BORDERS.get(secret.kind, ("", ""))
            return re.search(before + folded + after, self.written, re.IGNORECASE) is not None
        fewest = _FEWEST_DIGITS if bare.isdecimal() else _FEWEST
        return len(bare) >= fewest and bare in self.bare


def _bare(text: str) -> str:
    """Letters and digits."""
    return re.sub(r"0x|\\x|[\W_]", "", text)


def _in_hex(value: str) -> Iterator[str]:
    for text in {value, value.lower(), value.upper()}:
        data = text.encode(errors="replace")
        yield data.hex()
        yield data[::-1].hex()


def _in_base64(data: bytes) -> Iterator[str]:
    """Behind none, one and two other bytes, without the digits that others have a part in."""
    for before in range(3):
        digits = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        own = digits[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        if len(own) >= _FEWEST:
            yield own
