"""Words of symptoms and messages, in the form in which they are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+(?:\.[^\W_]+)*")
_LEAST_STEM = 4
_ENDINGS = {"ing": _LEAST_STEM, "ed": _LEAST_STEM, "es": _LEAST_STEM, "s": 3}  # and what is left
# They say nothing of what is wrong.
_EMPTY = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does", "for",
    "from", "get", "gets", "got", "has", "have", "how", "i", "if", "in", "is", "it", "its", "me",
    "my", "no", "not", "of", "on", "or", "orin", "llm", "so", "than", "that", "the", "then",
    "there", "this", "to", "too", "was", "we", "what", "when", "where", "which", "why", "will",
    "with", "you", "your",
})  # fmt: skip


def plain_words(text: str) -> list[str]:
    """All words, in lower case, in their order."""
    return _WORD.findall(text.lower())


def stems(text: str) -> list[str]:
    """The words that say something, without their endings, in their order; of `jtop.service` its
    parts, too.
    """
    words = []
    for word in plain_words(text):
        parts = word.split(".")
        named = len(parts) > 1 and not word.replace(".", "").isdecimal()
        words += [word, *(parts if named else ())]
    return [stem(word) for word in words if word not in _EMPTY]


def stem(word: str) -> str:
    """`throttl` of throttle, throttled, throttling; numbers and short words stay."""
    for ending, least in _ENDINGS.items():
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word.removesuffix(ending)
            break
    return word.removesuffix("e") if len(word) > _LEAST_STEM else word


def message_pattern(message: str) -> re.Pattern[str]:
    """What finds a message in words joined by blanks; `…` in it stands for any words, or none."""
    parts = [" ".join(plain_words(part)) for part in message.split("…")]
    found = r"(?: .*?)? ".join(re.escape(part) for part in parts if part)
    return re.compile(rf"(?<!\S){found}(?!\S)")


def joined(words: Iterable[str]) -> str:
    """Words as `message_pattern` looks for them."""
    return " ".join(words)
