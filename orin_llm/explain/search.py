"""Which entries of the guide fit what a user says, or what a program has printed."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orin_llm.explain.guide import Entry, name_of
from orin_llm.explain.words import joined, message_pattern, plain_words, stem, stems

# A word of a heading says more than one of the text. By judgement; tests hold the outcomes.
_WEIGHTS = {"title": 5.0, "also": 4.0, "checks": 3.0, "messages": 2.0, "symptom": 2.0}
_WEIGHT_OF_TEXT = 1.0
_WEIGHT_OF_MESSAGE = 10.0
# Of a fit; below, single common words have met. Who says a few words has chosen them.
_LEAST_SCORE = 8.0
_LEAST_SCORE_OF_FEW_WORDS = 4.0
_LEAST_SHARE = 0.35  # of the best score, for others beside it
_CLOSE = 0.8  # of a misspelt word to one of the guide
_FEW_WORDS = 8  # what is longer was printed by a program


@dataclass(frozen=True)
class Fit:
    """An entry, how well it fits, and the line that it fits best."""

    entry: Entry
    score: float
    line: str


@dataclass(frozen=True)
class _Message:
    number: int  # of the entry
    pattern: re.Pattern[str]
    score: float


class Index:
    """The words and messages of a guide."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        weights = [_weights(entry) for entry in entries]
        seen_in = Counter(word for words in weights for word in words)
        self._rarity = {word: math.log(1 + len(entries) / n) for word, n in seen_in.items()}
        self._unknown = math.log(1 + len(entries))
        self._places = defaultdict[str, list[tuple[int, float]]](list)
        for number, words in enumerate(weights):
            for word, weight in words.items():
                self._places[word].append((number, weight * self._rarity[word]))
        # By the rarest word of each, so that a line is only compared with those it may hold.
        self._messages = defaultdict[str, list[_Message]](list)
        for number, entry in enumerate(entries):
            for message in entry.messages:
                self._add_message(number, message)

    def _add_message(self, number: int, message: str) -> None:
        literal = [word for word in plain_words(message) if stem(word) in self._rarity]
        rarest = max(literal, key=lambda word: self._rarity[stem(word)])
        says = {stem(word) for word in literal}
        score = _WEIGHT_OF_MESSAGE * sum(self._rarity[word] for word in says)
        self._messages[rarest].append(_Message(number, message_pattern(message), score))

    def find(self, lines: Iterable[str]) -> list[Fit]:
        """The entries that fit any of the lines, the best first; those far behind are left out."""
        best = dict[int, Fit]()
        for line in lines:
            for number, score in self._scores(line).items():
                if number not in best or best[number].score < score:
                    best[number] = Fit(self._entries[number], score, line)
        fits = sorted(best.values(), key=lambda fit: -fit.score)
        return [fit for fit in fits if fit.score >= _LEAST_SHARE * fits[0].score]

    def named(self, text: str) -> Entry | None:
        """The entry of this name or title."""
        wanted = name_of(text.strip())
        return next((entry for entry in self._entries if entry.name == wanted), None)

    def _scores(self, line: str) -> Mapping[int, float]:
        """By the number of an entry."""
        words = list(dict.fromkeys(stems(line)))
        are_few = len(words) <= _FEW_WORDS
        if are_few:
            words = [self._corrected(word) for word in words]
        total = sum(self._rarity.get(word, self._unknown) for word in words)
        scores = defaultdict[int, float](float)
        covered = defaultdict[int, float](float)
        for word in words:
            for number, score in self._places.get(word, ()):
                scores[number] += score
                covered[number] += self._rarity[word]
        least = _LEAST_SCORE_OF_FEW_WORDS if are_few else _LEAST_SCORE
        result = {number: score * covered[number] / total for number, score in scores.items()}
        result = {number: score for number, score in result.items() if score >= least}
        for number, score in self._message_scores(line):
            result[number] = max(result.get(number, 0.0), score)
        return result

    def _message_scores(self, line: str) -> Iterator[tuple[int, float]]:
        there = plain_words(line)
        text = joined(there)
        for word in set(there):
            for message in self._messages.get(word, ()):
                if message.pattern.search(text):
                    yield message.number, message.score

    def _corrected(self, word: str) -> str:
        if word in self._rarity or len(word) < 4 or not word.isalpha():
            return word
        return next(iter(difflib.get_close_matches(word, self._rarity, 1, _CLOSE)), word)


def _weights(entry: Entry) -> dict[str, float]:
    """The weight of each word of an entry: that of the weightiest place where it stands."""
    words = dict.fromkeys(stems(" ".join((entry.log, entry.trace, entry.fix))), _WEIGHT_OF_TEXT)
    for place, weight in sorted(_WEIGHTS.items(), key=lambda item: item[1]):
        value = getattr(entry, place)
        text = value if isinstance(value, str) else " ".join(value)
        words |= dict.fromkeys(stems(text), weight)
    return words
