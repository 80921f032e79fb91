"""Shapes of what Llama takes and returns. Names and keys are those of llama-cpp-python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

FinishReason = Literal["stop", "length"]


class CompletionLogprobs(TypedDict):
    """Natural-log probabilities, one entry for each generated token.

    `text_offset` is where the token's text begins, in characters from the prompt's beginning.
    """

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class CompletionChoice(TypedDict):
    text: str
    index: int
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason | None


class CompletionUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CreateCompletionStreamResponse(TypedDict):
    """One chunk of a streamed completion. The last one has no text but a finish_reason."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]


class CreateCompletionResponse(CreateCompletionStreamResponse):
    usage: CompletionUsage


class ChatCompletionTopLogprobToken(TypedDict):
    token: str
    logprob: float
    bytes: list[int] | None


class ChatCompletionLogprobToken(ChatCompletionTopLogprobToken):
    top_logprobs: list[ChatCompletionTopLogprobToken]


class ChatCompletionLogprobs(TypedDict):
    content: list[ChatCompletionLogprobToken] | None
    refusal: list[ChatCompletionLogprobToken] | None


class ChatCompletionResponseMessage(TypedDict):
    role: Literal["assistant"]
    content: str | None


class ChatCompletionResponseChoice(TypedDict):
    index: int
    message: ChatCompletionResponseMessage
    logprobs: ChatCompletionLogprobs | None
    finish_reason: FinishReason | None


class CreateChatCompletionResponse(TypedDict):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatCompletionResponseChoice]
    usage: CompletionUsage


class ChatCompletionStreamResponseDelta(TypedDict, total=False):
    """What a chunk adds: first the role, then content; the last one adds nothing."""

    role: Literal["assistant"]
    content: str


class ChatCompletionStreamResponseChoice(TypedDict):
    index: int
    delta: ChatCompletionStreamResponseDelta
    logprobs: ChatCompletionLogprobs | None
    finish_reason: FinishReason | None


class CreateChatCompletionStreamResponse(TypedDict):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatCompletionStreamResponseChoice]


# What a chat is asked with: {"role": …, "content": …} and what else the model's template reads.
ChatCompletionRequestMessage = Mapping[str, Any]
# {"type": "function", "function": {"name": …, "description": …, "parameters": JSON schema}}
ChatCompletionTool = Mapping[str, Any]
