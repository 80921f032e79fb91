"""Real vocabularies as tokenizers, without a model's weights, and conversations over them."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from orin_llm import _native
from orin_llm.text.conversation import Conversation
from orin_llm.text.template import DEFAULT_TEMPLATE, ChatTemplate
from orin_llm.upstream import vocab_file

CHATML = ChatTemplate(DEFAULT_TEMPLATE, bos_token="", eos_token="")


class VocabTokenizer:
    """The vocabulary of one of upstream's vocabulary-only files."""

    def __init__(self, name: str) -> None:
        self._model = _native.Model(str(vocab_file(name)), _native.ModelParams(vocab_only=True))
        self.add_bos = self._model.add_bos
        self.bos_id = self._model.bos

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        return {text.decode(): token for text, token in self._model.special_tokens().items()}

    def tokenize(
        self, text: str, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        data = text.encode("utf-8", "surrogateescape")
        return self._model.tokenize(data, add_special=add_special, parse_special=parse_special)

    def token_bytes(self, token: int, *, special: bool = False) -> bytes:
        return self._model.token_bytes(token, special=special)

    @cached_property
    def control_ids(self) -> set[int]:
        """Special tokens that are parsed only on request."""
        return {
            token
            for text, token in self.special_tokens.items()
            if self.tokenize(text, add_special=False) != [token]
        }


@lru_cache
def vocab(name: str) -> VocabTokenizer:
    return VocabTokenizer(name)


def asked(*turns: tuple[str, str], system: str | None = None) -> Conversation:
    tokenizer = vocab("qwen2")
    chat = Conversation(tokenizer, CHATML, system=system)
    for question, answer in turns:
        chat.add_user(question)
        chat.prompt(100_000)
        chat.add_answer(answer, tokenizer.tokenize(answer, add_special=False))
    return chat


def contents(chat: Conversation) -> list[Any]:
    return [message["content"] for message in chat.messages]
