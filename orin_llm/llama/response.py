"""What Llama returns: an engine's completion as dictionaries in llama-cpp-python's shapes."""

from __future__ import annotations

import codecs
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import cast

from orin_llm.engine import Completion, Engine, Result, TokenLogprobs
from orin_llm.llama.types import (
    ChatCompletionLogprobs,
    ChatCompletionStreamResponseDelta,
    CompletionChoice,
    CompletionLogprobs,
    CompletionUsage,
    CreateChatCompletionResponse,
    CreateChatCompletionStreamResponse,
    CreateCompletionResponse,
    CreateCompletionStreamResponse,
    FinishReason,
)


class Response:
    """The answers of one completion share their id, time and model name.

    Args:
        engine: gives tokens their text.
        completion: started, not yet iterated.
        model: the name to report.
        offset: where the completion's text begins, for log-probabilities.
        echo: text to put before the completion when it is not streamed.
    """

    def __init__(
        self, engine: Engine, completion: Completion, *, model: str, offset: int, echo: str = ""
    ) -> None:
        self._completion = completion
        self._model = model
        self._echo = echo
        self._logprobs = _LogprobsWriter(engine, offset)
        self._id = f"cmpl-{uuid.uuid4()}"
        self._created = int(time.time())

    def whole(self) -> CreateCompletionResponse:
        """Run the completion to its end."""
        logprobs = [entry for chunk in self._completion for entry in chunk.logprobs]
        result = self._completion.result
        text = self._echo + result.text
        choice = _choice(text, self._logprobs.take(logprobs), _finish_reason(result))
        return {**self._head(choice), "usage": _usage(result)}

    def chunks(self) -> Iterator[CreateCompletionStreamResponse]:
        """Run the completion as the chunks are taken. Ends it where the taker stops."""
        try:
            for chunk in self._completion:
                if chunk.text or chunk.logprobs:
                    logprobs = self._logprobs.take(chunk.logprobs)
                    yield self._head(_choice(chunk.text, logprobs, None))
            yield self._head(_choice("", None, _finish_reason(self._completion.result)))
        finally:
            self._completion.close()

    def _head(self, choice: CompletionChoice) -> CreateCompletionStreamResponse:
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self._created,
            "model": self._model,
            "choices": [choice],
        }


def chat_response(completion: CreateCompletionResponse) -> CreateChatCompletionResponse:
    """A completion as the answer in a chat."""
    choice = completion["choices"][0]
    return {
        "id": "chat" + completion["id"],
        "object": "chat.completion",
        "created": completion["created"],
        "model": completion["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": choice["text"]},
                "logprobs": _chat_logprobs(choice["logprobs"]),
                "finish_reason": choice["finish_reason"],
            }
        ],
        "usage": completion["usage"],
    }


def chat_chunks(
    chunks: Iterator[CreateCompletionStreamResponse],
) -> Iterator[CreateChatCompletionStreamResponse]:
    """Chunks of a completion as those of a chat: one with the role comes first."""
    for number, chunk in enumerate(chunks):
        if number == 0:
            yield _chat_chunk(chunk, {"role": "assistant"}, None, None)
        choice = chunk["choices"][0]
        reason = choice["finish_reason"]
        delta: ChatCompletionStreamResponseDelta = {} if reason else {"content": choice["text"]}
        yield _chat_chunk(chunk, delta, choice["logprobs"], reason)


def _chat_chunk(
    chunk: CreateCompletionStreamResponse,
    delta: ChatCompletionStreamResponseDelta,
    logprobs: CompletionLogprobs | None,
    reason: FinishReason | None,
) -> CreateChatCompletionStreamResponse:
    return {
        "id": "chat" + chunk["id"],
        "object": "chat.completion.chunk",
        "created": chunk["created"],
        "model": chunk["model"],
        "choices": [
            {
                "index": 0,
                "delta": delta,
                "logprobs": _chat_logprobs(logprobs),
                "finish_reason": reason,
            }
        ],
    }


def _chat_logprobs(logprobs: CompletionLogprobs | None) -> ChatCompletionLogprobs | None:
    if logprobs is None:
        return None
    return {
        "content": [
            {
                "token": token,
                "logprob": cast(float, logprob),
                "bytes": None,
                "top_logprobs": [
                    {"token": text, "logprob": value, "bytes": None}
                    for text, value in cast(dict[str, float], top).items()
                ],
            }
            for token, logprob, top in zip(
                logprobs["tokens"],
                logprobs["token_logprobs"],
                logprobs["top_logprobs"],
                strict=True,
            )
        ],
        "refusal": None,
    }


class _LogprobsWriter:
    """Log-probabilities with the place of each token's text, over any number of chunks."""

    def __init__(self, engine: Engine, offset: int) -> None:
        self._engine = engine
        self._offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def take(self, entries: Sequence[TokenLogprobs]) -> CompletionLogprobs | None:
        """The entries of the next tokens; None where there are none."""
        if not entries:
            return None
        written: CompletionLogprobs = {
            "text_offset": [],
            "token_logprobs": [],
            "tokens": [],
            "top_logprobs": [],
        }
        for entry in entries:
            written["text_offset"].append(self._offset)
            written["token_logprobs"].append(entry.logprob)
            written["tokens"].append(self._text(entry.token))
            top = {self._text(token): logprob for token, logprob in entry.top}
            written["top_logprobs"].append({**top, self._text(entry.token): entry.logprob})
            self._offset += len(self._decoder.decode(self._engine.token_bytes(entry.token)))
        return written

    def _text(self, token: int) -> str:
        return self._engine.token_bytes(token).decode("utf-8", "ignore")


def _choice(
    text: str, logprobs: CompletionLogprobs | None, reason: FinishReason | None
) -> CompletionChoice:
    return {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": reason}


def _finish_reason(result: Result) -> FinishReason:
    return "length" if result.finish_reason == "length" else "stop"


def _usage(result: Result) -> CompletionUsage:
    return {
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": result.completion_tokens,
        "total_tokens": result.prompt_tokens + result.completion_tokens,
    }
