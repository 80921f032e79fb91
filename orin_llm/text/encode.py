"""A chat to token ids, where only the template may write control tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from orin_llm.errors import UsageError
from orin_llm.text.marks import MarkedText, Marker, strings_of, unused_character
from orin_llm.text.template import ChatTemplate, Message, plain_data, prepare_messages

# What a tokenizer may strip beside a special token: C's isspace.
C_SPACE = " \t\n\v\f\r"


class Tokenizer(Protocol):
    """What is needed of a tokenizer; an Engine is one."""

    @property
    def add_bos(self) -> bool: ...
    @property
    def bos_id(self) -> int: ...
    @property
    def special_tokens(self) -> Mapping[str, int]: ...
    def tokenize(
        self, text: str, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]: ...
    def token_bytes(self, token: int) -> bytes: ...


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    **options: Any,
) -> list[int]:
    """Token ids of one conversation; see ChatEncoder.encode."""
    return ChatEncoder(tokenizer, template).encode(messages, **options)


class ChatEncoder:
    """Renders conversations and tokenizes them."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self.tokenizer = tokenizer
        self.template = template

    def encode(self, messages: Sequence[Message], **options: Any) -> list[int]:
        """Token ids of a conversation.

        They are those of the rendered text with control tokens parsed, except that a control token
        spelled out inside the messages (or tools and variables) stays text. They begin with bos
        once, where the template writes it or the model asks for it.

        Args:
            messages, options: see ChatTemplate.render.

        Raises:
            TemplateError: see ChatTemplate.render.
            UsageError: a message is no valid text.
        """
        return self.with_bos(self.tokenize(self.render(messages, **options)))

    def render(self, messages: Sequence[Message], **options: Any) -> MarkedText:
        """Render, with marks in control tokens that the messages and options spell out."""
        messages, options = prepare_messages(messages), plain_data(options)
        given = [*strings_of(messages), *strings_of(options)]
        mark = unused_character([self.template.source, *self.tokenizer.special_tokens, *given])
        text = self.template.render(
            self._marker.mark_all(messages, mark), **self._marker.mark_all(options, mark)
        )
        return MarkedText(text, mark)

    def tokenize(self, marked: MarkedText) -> list[int]:
        """Ids of a rendered text as it stands, without bos."""
        if not marked.is_marked:
            return self._tokenize(marked.text, parse_special=True)
        pieces = self._cut_at_special_tokens(marked.text)
        tokens = []
        for place, piece in enumerate(pieces):
            if piece in self.tokenizer.special_tokens:
                tokens.append(self.tokenizer.special_tokens[piece])
                continue
            text = marked.unmark(piece)
            if place > 0 and self._is_stripped(pieces[place - 1], after=True):
                text = text.lstrip(C_SPACE)
            if place + 1 < len(pieces) and self._is_stripped(pieces[place + 1], after=False):
                text = text.rstrip(C_SPACE)
            tokens += self._tokenize(text, parse_special=False)
        return tokens

    def tokenize_rest(self, rest: MarkedText) -> list[int] | None:
        """Ids of a text that goes on behind tokens already there.

        None where the tokenizer has no way to say so: it puts a space before every text, and the
        text's first characters belong together with what stands in for the tokens before.
        """
        starts_special = rest.text.startswith(tuple(self.tokenizer.special_tokens))
        if not rest.text or starts_special or not self._prefixes_space:
            return self.tokenize(rest)
        before = self._tokenize("\n", parse_special=False)
        tokens = self.tokenize(MarkedText("\n" + rest.text, rest.mark))
        return tokens[len(before) :] if tokens[: len(before)] == before else None

    def with_bos(self, tokens: list[int]) -> list[int]:
        """Put bos first where the model asks for it and the template did not write it."""
        if self.tokenizer.add_bos and tokens[:1] != [self.tokenizer.bos_id]:
            return [self.tokenizer.bos_id, *tokens]
        return tokens

    @cached_property
    def _marker(self) -> Marker:
        # User-defined tokens are parsed in any text: what is no control token gives itself.
        return Marker(
            text
            for text, token in self.tokenizer.special_tokens.items()
            if self._tokenize(text, parse_special=False) != [token]
        )

    @cached_property
    def _prefixes_space(self) -> bool:
        tokens = self._tokenize("x", parse_special=False)
        return b"".join(map(self.tokenizer.token_bytes, tokens)) != b"x"

    def _cut_at_special_tokens(self, text: str) -> list[str]:
        """Cut as llama.cpp does: at the longest special tokens first, wherever they stand."""
        special = self.tokenizer.special_tokens
        pieces = [text]
        for cut in sorted((name for name in special if name in text), key=len, reverse=True):
            parts = []
            for piece in pieces:
                if piece in special:
                    parts.append(piece)
                    continue
                first, *rest = piece.split(cut)
                parts += [first, *(part for text in rest for part in (cut, text))]
            pieces = [part for part in parts if part]
        return pieces

    def _is_stripped(self, special: str, *, after: bool) -> bool:
        """Whether the tokenizer drops white space after (or before) this special token."""
        probe = special + "\n" if after else "\n" + special
        token = self.tokenizer.special_tokens[special]
        return self._tokenize(probe, parse_special=True) == [token]

    def _tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        return tokenize_text(self.tokenizer, text, add_special=False, parse_special=parse_special)


def tokenize_text(
    tokenizer: Tokenizer, text: str, *, add_special: bool, parse_special: bool
) -> list[int]:
    """Token ids of a text. Raises UsageError for one that has no UTF-8 form."""
    try:
        return tokenizer.tokenize(text, add_special=add_special, parse_special=parse_special)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"character {error.start} of the text is half of a surrogate pair: "
            "it has no UTF-8 form, leave it out"
        ) from error
