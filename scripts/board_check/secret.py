"""What must not leave the machine: values that are known, and how each is found in a reading."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.host.disk import replacing

# Kinds, and what they are for people.
KINDS = {
    "serial": "serial numbers of board, module and drives",
    "chip": "ids of the chip",
    "mac": "addresses of network cards",
    "ip": "network addresses",
    "host": "names of hosts",
    "user": "names of users",
    "name": "names of people",
    "email": "e-mail addresses",
    "ssid": "names of wireless networks",
    "uuid": "UUIDs of drives, GPUs and the system",
    "id": "the system's own id",
    "token": "passwords and tokens",
    "path": "folders of users, of the checkout and of models",
}
NAMES = ("host", "user", "name", "ssid")  # are words of a language, or look like one
# What is put in.
PLACEHOLDER = re.compile(rf"(<(?:{'|'.join(KINDS)})-\d+>|<checkout>|<models>|<out>|<cache>)")
_BREAK = r"[\n\x1c]*"  # a fold or a colour within a value
_NUMBERS = ("serial", "chip", "mac", "uuid", "id")
_SEPARATED = r"(?:[\s:,._-]|0x){0,4}"  # characters of a number
_PREFIX = re.compile(r"^(?:0x|(?:naa|eui|uuid)\.)", re.IGNORECASE)
_BYTES = re.compile("(?:[0-9a-f]{2})+", re.IGNORECASE)
_FEWEST = 3  # characters of a name that is looked for wherever it stands
_FEWEST_DIGITS, _FEWEST_DIFFERENT = 10, 4  # of a number that may have marks between them
_SURE = 8  # characters of a number that is looked for within longer words, too
_JUNK = re.compile(
    r"[0\W_]*|none|null|n/?a|unknown|default string|not (?:specified|applicable|available).*"
    r"|to be filled.*|system (?:serial|product).*|.*o\.e\.m\..*|(?:chassis|asset|board).*|(.)\1+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Secret:
    """A value of this machine.

    Attributes:
        kind: one of KINDS.
        instead: what stands for a path; "" for a numbered placeholder.
    """

    kind: str
    value: str
    instead: str = ""

    @property
    def is_name(self) -> bool:
        return self.kind in NAMES

    @property
    def is_sure(self) -> bool:
        """It is so long and odd that nothing else is written like it, spaces left out."""
        return not self.is_name and len(self.value) >= _SURE

    def is_looked_for(self, vocabulary: frozenset[str]) -> bool:
        """Names that are short, or common words, are only taken out where a place shows what they
        are."""
        value = self.value.strip()
        if self.is_name:
            return len(value) >= _FEWEST and value.lower() not in vocabulary
        return len(value) >= 4 and not _JUNK.fullmatch(value)

    def pattern(self) -> str:
        """An expression for it in a reading, ignoring case."""
        forms = {_folded(unicodedata.normalize(form, self.value)) for form in ("NFC", "NFD")}
        digits = re.sub(r"[\W_]", "", _PREFIX.sub("", self.value))
        if self.kind in _NUMBERS and digits.isascii() and _is_told_apart(digits):
            forms.add(_SEPARATED.join(digits))
            if _BYTES.fullmatch(digits):  # the last one first, too
                forms.add(_SEPARATED.join(re.findall("..", digits)[::-1]))
        before, after = self._borders()
        return f"{before}(?:{'|'.join(sorted(forms, key=len, reverse=True))}){after}"

    def _borders(self) -> tuple[str, str]:
        value = self.value
        if self.kind == "path":
            return "", r"(?![^\W_])"
        if value.replace(".", "").isdecimal():  # no part of a longer number, or address
            return r"(?<![0-9])(?<![0-9]\.)", r"(?!\.?[0-9])"
        if self.is_name:  # digits may follow: maria2
            return (
                r"(?<![^\W\d_])" + (r"(?<!\d)" if value[0].isdigit() else ""),
                r"(?![^\W\d_])" + (r"(?!\d)" if value[-1].isdigit() else ""),
            )
        return ("", "") if self.is_sure else (r"(?<![^\W_])", r"(?![^\W_])")


def _is_told_apart(digits: str) -> bool:
    """With marks between them; columns of figures are written like a number of few digits."""
    if digits.isdecimal():
        return len(digits) >= _FEWEST_DIGITS and len(set(digits)) >= _FEWEST_DIFFERENT
    return len(digits) >= _SURE


def _folded(text: str) -> str:
    """With breaks between its characters; any white space stands for any other."""
    words = (_BREAK.join(map(re.escape, word)) for word in text.split())
    return r"[\s_+]+".join(words)


def keep(path: Path, secrets: Sequence[Secret], raw: str) -> list[Secret]:
    """These and those that the file has; it has them all afterwards, for its owner alone.

    A password or token is only written down where `raw`, what was found, has it anyway.

    Raises:
        OrinError: it cannot be understood.
    """
    kept = []
    try:
        if path.exists():
            kept = [Secret(*one) for one in json.loads(path.read_text())]
    except (ValueError, TypeError):
        raise OrinError(f"{path} is damaged: --fresh begins again") from None
    every = list(dict.fromkeys([*kept, *secrets]))
    with replacing(path) as part:
        part.chmod(0o600)
        lasting = [one for one in every if one.kind != "token" or one.value in raw]
        part.write_text(json.dumps([astuple(one) for one in lasting]))
    return every
