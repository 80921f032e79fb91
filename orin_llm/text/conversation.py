"""A conversation: its messages, and the tokens the model has already seen for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_llm.errors import PromptTooLong, UsageError
from orin_llm.text.conversation_file import read_messages, write_messages
from orin_llm.text.encode import ChatEncoder, Tokenizer
from orin_llm.text.marks import MarkedText
from orin_llm.text.template import ChatTemplate, Message

# Part of the context that is free after turns were dropped.
FREED_FRACTION = 0.25


@dataclass(frozen=True)
class Prompt:
    """What to send to the model.

    Attributes:
        tokens: the whole conversation up to the beginning of the next answer.
        dropped_turns: how many of the oldest turns were dropped to make it fit.
    """

    tokens: list[int]
    dropped_turns: int


@dataclass(frozen=True)
class _Seen:
    """A place up to which text and tokens belong together.

    Attributes:
        n_messages: messages that the text covers.
        n_characters: length of the text.
        n_tokens: number of tokens for it.
    """

    n_messages: int
    n_characters: int
    n_tokens: int


class Conversation:
    """Messages in order, asked and answered in turns.

    A turn is a user's message with all that follows it up to the next one. Tokens of earlier turns
    stay as they were sent and generated: tokenizing their text again may give others, and the
    engine's KV cache would be lost.

    Args:
        tokenizer: of the model that answers.
        template: its chat template.
        system: what the system message says, or None for no such message.
        tools: JSON schemas of functions, for templates that know them.
        variables: what else the template reads.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        self._encoder = ChatEncoder(tokenizer, template)
        self._options = {"tools": tools, **(variables or {})}
        self._messages: list[Message] = []
        self._seen: list[_Seen] = []
        self._seen_text = ""
        self._seen_tokens: list[int] = []
        if system is not None:
            self.set_system(system)

    # Messages

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    @property
    def n_turns(self) -> int:
        return len(_turn_starts(self._messages))

    @property
    def system(self) -> str | None:
        """What the system message says, if there is one."""
        if self._messages and self._messages[0]["role"] == "system":
            return str(self._messages[0]["content"])
        return None

    def set_system(self, text: str | None) -> None:
        """Replace the system message; None removes it. The turns stay."""
        rest = self._messages[1:] if self.system is not None else self._messages
        system = [] if text is None else [{"role": "system", "content": text}]
        self._replace([*system, *rest])

    def add(self, message: Message) -> None:
        """Append a message of any role, such as a tool's result."""
        if not isinstance(message.get("role"), str):
            raise UsageError('a message has no "role": expected user, assistant, tool …')
        self._messages.append(dict(message))

    def add_user(self, text: str) -> None:
        """Append what the user says."""
        self.add({"role": "user", "content": text})

    def undo(self) -> Message:
        """Take back the last turn; return the user's message.

        Raises:
            UsageError: there is no turn.
        """
        starts = _turn_starts(self._messages)
        if not starts:
            raise UsageError("there is nothing to take back: the conversation has no turn yet")
        message = self._messages[starts[-1]]
        self._truncate(starts[-1])
        return message

    def drop_answer(self) -> None:
        """Take back what follows the last user's message, to have it answered again.

        Raises:
            UsageError: there is no turn.
        """
        starts = _turn_starts(self._messages)
        if not starts:
            raise UsageError("there is nothing to answer again: the conversation has no turn yet")
        self._truncate(starts[-1] + 1)

    def clear(self) -> None:
        """Forget all turns; the system message stays."""
        self._replace([] if self.system is None else self._messages[:1])

    # Prompts and answers

    def prompt(self, n_ctx: int, reserve: int = 0) -> Prompt:
        """The tokens to send. Drops the oldest turns, whole, where they do not fit.

        As the first turns change, the model must compute all that is left again; so a part of the
        context is freed at once, and the next turns are cheap.

        Args:
            n_ctx: tokens that the context holds.
            reserve: tokens of it to keep free for the answer, where the last turn leaves them.

        Raises:
            PromptTooLong: the last turn alone fills the context. Nothing is dropped then.
            TemplateError: see ChatTemplate.render.
        """
        starts = _turn_starts(self._messages)
        text, tokens = self._encode(self._messages)
        messages, dropped = self._messages, 0
        room = n_ctx - reserve
        if len(tokens) > room:
            room -= round(n_ctx * FREED_FRACTION)
        while len(tokens) > room and dropped + 1 < len(starts):
            dropped += 1
            messages = self._messages[: starts[0]] + self._messages[starts[dropped] :]
            text = self._encoder.render(messages, **self._options)
            tokens = self._encoder.with_bos(self._encoder.tokenize(text))
        if len(tokens) >= n_ctx:
            raise PromptTooLong(
                f"the last message needs {len(tokens)} tokens with what stands before it, the "
                f"context holds {n_ctx} with the answer: shorten it or choose a larger context "
                "(-c/--ctx-size, n_ctx in Python)"
            )
        if dropped:
            self._replace(messages)
        self._remember(len(self._messages), text.plain, tokens)
        return Prompt(tokens, dropped)

    def add_answer(self, text: str, tokens: Sequence[int]) -> None:
        """Append the model's answer to the last prompt.

        Args:
            text: what it says; a stop string is not part of it.
            tokens: the tokens it was generated as.
        """
        is_pending = bool(self._seen) and self._seen[-1].n_messages == len(self._messages)
        self._messages.append({"role": "assistant", "content": text})
        if is_pending:
            n_characters, kept = self._covered(text, tokens)
            self._remember(
                len(self._messages),
                self._seen_text + text[:n_characters],
                self._seen_tokens + kept,
            )

    def _encode(self, messages: Sequence[Message]) -> tuple[MarkedText, list[int]]:
        """Render, and tokenize only what follows the text already seen."""
        rendered = self._encoder.render(messages, **self._options)
        plain = rendered.plain
        for seen in reversed(self._seen):
            if plain.startswith(self._seen_text[: seen.n_characters]):
                rest = self._encoder.tokenize_rest(rendered.after(seen.n_characters))
                if rest is not None:
                    return rendered, self._seen_tokens[: seen.n_tokens] + rest
        return rendered, self._encoder.with_bos(self._encoder.tokenize(rendered))

    def _covered(self, text: str, tokens: Sequence[int]) -> tuple[int, list[int]]:
        """How many characters of an answer its tokens stand for, and those tokens.

        The last tokens are left out where they stand for nothing (the end token, which the template
        writes) or for what is no longer in the text (a stop string).
        """
        data = text.encode("utf-8", "surrogatepass")
        pieces = [self._encoder.tokenizer.token_bytes(token) for token in tokens]
        n_tokens = n_bytes = done = 0
        for place, piece in enumerate(pieces, start=1):
            if not data.startswith(piece, done):
                break
            done += len(piece)
            if piece and _is_border(data, done):
                n_tokens, n_bytes = place, done
        return len(data[:n_bytes].decode("utf-8", "surrogatepass")), list(tokens[:n_tokens])

    def _remember(self, n_messages: int, text: str, tokens: list[int]) -> None:
        """Add a place, and forget those that the text and tokens no longer go through."""
        self._seen = [
            seen
            for seen in self._seen
            if seen.n_messages < n_messages
            and text.startswith(self._seen_text[: seen.n_characters])
            and tokens[: seen.n_tokens] == self._seen_tokens[: seen.n_tokens]
        ]
        self._seen.append(_Seen(n_messages, len(text), len(tokens)))
        self._seen_text, self._seen_tokens = text, tokens

    def _truncate(self, n_messages: int) -> None:
        del self._messages[n_messages:]
        self._seen = [seen for seen in self._seen if seen.n_messages <= n_messages]

    def _replace(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)
        self._seen = []

    # Files

    def save(self, path: str | Path) -> None:
        """Write the messages to a JSON file; an old file is replaced only by a complete new one.

        Raises:
            OrinError: the file cannot be written.
        """
        write_messages(Path(path), self._messages)

    def load(self, path: str | Path) -> None:
        """Replace the messages by those of a file that `save` wrote.

        Raises:
            ConversationFileError: the file cannot be read, or holds something else. The messages
                stay as they were.
        """
        self._replace(read_messages(Path(path)))


def _turn_starts(messages: Sequence[Message]) -> list[int]:
    return [place for place, message in enumerate(messages) if message["role"] == "user"]


def _is_border(data: bytes, place: int) -> bool:
    """Whether no character goes on at this byte."""
    return place == len(data) or data[place] & 0xC0 != 0x80
