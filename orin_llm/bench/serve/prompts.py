"""Prompts for a server whose tokenizer nobody has: as many words as make that many tokens."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WORDS = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work night point "
    "home water room mother area money story fact month lot right study book eye job word business "
    "issue side kind head house service friend father power hour game line end member law car city "
    "name team minute idea body back parent face level office door health person art war history "
    "party result change morning reason girl boy food air river road tree light music paper table "
    "window summer winter garden letter market mountain bridge island ship train star stone bird "
    "horse dog fish bread salt gold silver iron wood fire rain snow wind storm cloud field forest"
)
WORDS = _WORDS.split()
_GO_ON = "\nGo on with this list of words, without an end."


@dataclass(frozen=True)
class Prompt:
    """What a request asks.

    Attributes:
        messages: of a chat; where that is not asked, their texts are put together.
        tokens: that it is thought to have, the server's template included.
    """

    messages: tuple[Mapping[str, Any], ...]
    tokens: int = 0

    @classmethod
    def of(cls, text: str, tokens: int = 0) -> Prompt:
        """What a user says."""
        return cls(({"role": "user", "content": text},), tokens)

    def content(self, endpoint: str) -> dict[str, Any]:
        """Its part of a request's body."""
        if endpoint == "chat":
            return {"messages": list(self.messages)}
        return {"prompt": "\n".join(str(message["content"]) for message in self.messages)}


@dataclass(frozen=True)
class WordCount:
    """How many tokens prompts of words have: `overhead` and `per_word` for each word."""

    overhead: float
    per_word: float

    @classmethod
    def of(cls, words: Sequence[int], tokens: Sequence[int]) -> WordCount:
        """By two prompts, of few and of many words, and the tokens that the server counted."""
        (few, many), (less, more) = words, tokens
        per_word = (more - less) / (many - few)
        if per_word <= 0:  # a server that counts otherwise; a word and its blank are a token
            return cls(0.0, 1.0)
        return cls(less - per_word * few, per_word)

    def words(self, tokens: int) -> int:
        """Words, one at least, of a prompt of nearly that many tokens."""
        return max(1, round((tokens - self.overhead) / self.per_word))

    def tokens(self, words: int) -> int:
        """Tokens of a prompt of words."""
        return max(1, round(self.overhead + words * self.per_word))


def word_prompt(random: random.Random, words: int, tokens: int = 0) -> Prompt:
    """A prompt of drawn words, so that no other one begins like it."""
    return Prompt.of(" ".join(random.choices(WORDS, k=words)) + _GO_ON, tokens)
