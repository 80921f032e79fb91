"""A text cut into windows of tokens, as llama.cpp's perplexity tool cuts it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orin_llm.engine.loaded_model import LoadedModel
from orin_llm.errors import UsageError

WINDOW_TOKENS = 512
LEAST_WINDOW = 16

Tokens = NDArray[np.int32]


def bos_of(model: LoadedModel) -> int | None:
    """The token that the model begins each text with, if it does."""
    return model.bos_id if model.add_bos and model.bos_id >= 0 else None


@dataclass(frozen=True)
class Window:
    """What is computed of a window, and what is asked.

    Attributes:
        inputs: the window's tokens but the last, which nothing is predicted from.
        first: position in `inputs` of the first token whose logits are wanted.
        targets: for each position from `first` on, the token that follows.
    """

    inputs: Tokens
    first: int
    targets: Tokens


@dataclass(frozen=True)
class Windows:
    """Windows of one length, one behind another; what is left at the end of the text is not used.

    A token counts when half of the window, rounded up, is before it: so the model has had text to
    go by. Where the model begins texts with a token of its own (bos), that takes the place of the
    first in each window.

    Attributes:
        tokens: [n, window_tokens], as the text has them.
        bos: the token that each begins with instead, or None.
    """

    tokens: Tokens
    bos: int | None

    @classmethod
    def of_text(
        cls,
        model: LoadedModel,
        text: str,
        window_tokens: int,
        most: int | None = None,
        *,
        parse_special: bool = False,
    ) -> Windows:
        """The windows of a text, the first `most` of them.

        With `parse_special`, control tokens written in the text are read as those tokens.

        Raises:
            UsageError: the text is shorter than a window.
            OrinError: it is longer than 64 MiB.
        """
        bos = bos_of(model)
        tokens = model.tokenize(text, add_special=False, parse_special=parse_special)
        if bos is not None:
            tokens.insert(0, bos)
        n = len(tokens) // window_tokens
        if n == 0:
            raise UsageError(
                f"the text has {len(tokens)} tokens, less than one window of {window_tokens}: "
                "give a longer text, or a smaller window (-c/--ctx-size)"
            )
        if most is not None:
            n = min(n, most)
        cut = np.asarray(tokens[: n * window_tokens], np.int32)
        return cls(cut.reshape(n, window_tokens), bos)

    @property
    def window_tokens(self) -> int:
        """Tokens of a window."""
        return int(self.tokens.shape[1])

    @property
    def first(self) -> int:
        """Position of the first token in a window whose logits count."""
        return self.window_tokens // 2

    @property
    def scored_per_window(self) -> int:
        """Tokens that count in each."""
        return self.window_tokens - 1 - self.first

    def __len__(self) -> int:
        return len(self.tokens)

    def whole(self, i: int) -> Tokens:
        """All tokens of a window as the model takes them: [window_tokens]."""
        tokens: Tokens = self.tokens[i].copy()
        if self.bos is not None:
            tokens[0] = self.bos
        return tokens

    def __iter__(self) -> Iterator[Window]:
        for i, tokens in enumerate(self.tokens):
            yield Window(self.whole(i)[:-1], self.first, tokens[self.first + 1 :])
