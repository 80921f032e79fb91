"""Llama: the engine behind the interface of llama-cpp-python's class of that name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orin_llm.engine import Request, SamplingParams
from orin_llm.errors import UsageError
from orin_llm.llama.model import LlamaModel
from orin_llm.llama.options import RANDOM_SEEDS, refuse_unsupported, stop_texts
from orin_llm.llama.response import Response, chat_chunks, chat_response
from orin_llm.llama.types import (
    ChatCompletionRequestMessage,
    ChatCompletionTool,
    CreateChatCompletionResponse,
    CreateChatCompletionStreamResponse,
    CreateCompletionResponse,
    CreateCompletionStreamResponse,
)
from orin_llm.text.encode import tokenize_text


class Llama(LlamaModel):
    """A model with the methods and results of llama-cpp-python's `Llama`.

    The constructor's arguments are those of LlamaModel. What has no counterpart here raises
    UsageError instead of being ignored.
    """

    # Completions

    def create_completion(
        self,
        prompt: str | Sequence[int],
        suffix: str | None = None,
        max_tokens: int | None = 16,
        temperature: float = 0.8,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        logprobs: int | None = None,
        echo: bool = False,
        stop: str | Sequence[str] | None = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        top_k: int = 40,
        stream: bool = False,
        seed: int | None = None,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        stopping_criteria: None = None,
        logits_processor: None = None,
        grammar: None = None,
        logit_bias: Mapping[int, float] | Mapping[str, float] | None = None,
    ) -> CreateCompletionResponse | Iterator[CreateCompletionStreamResponse]:
        """Continue a text.

        Args:
            prompt: a text, in which control tokens are parsed, or token ids.
            max_tokens: at most this many new tokens; None or 0: until the context is full.
            logprobs: how many of the likeliest tokens to report at each place.
            echo: put the prompt before the text (not when streaming).
            stop: texts that end the completion; they are not part of it.
            stream: return an iterator over chunks instead of the whole.
            seed: of this completion's random draw.
            model: the name to report; the path otherwise.
            logit_bias: added to a token's logit, by token id.
            suffix, typical_p, tfs_z, mirostat_mode, stopping_criteria, logits_processor, grammar:
                not supported, only their defaults are taken.

        Raises:
            PromptTooLong: the prompt fills the context.
            UsageError: an argument is not supported or out of range.
        """
        refuse_unsupported(
            suffix=suffix,
            typical_p=typical_p,
            tfs_z=tfs_z,
            mirostat_mode=mirostat_mode,
            stopping_criteria=stopping_criteria,
            logits_processor=logits_processor,
            grammar=grammar,
        )
        text, tokens = self._prompt(prompt)
        if echo and logprobs is not None and not stream:
            raise UsageError(
                "echo=True with logprobs is not supported: "
                "the prompt's own probabilities are not computed, ask for one of the two"
            )
        request = Request(
            tokens,
            self._sampling(
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
                repeat_penalty=repeat_penalty,
                frequency_penalty=frequency_penalty,
                presence_penalty=presence_penalty,
                seed=seed,
                logit_bias=logit_bias,
            ),
            max_tokens if max_tokens and max_tokens > 0 else None,
            stop_texts(stop),
            logprobs,
        )
        response = Response(
            self._engine,
            self._engine.complete(request),
            model=model or self.model_path,
            offset=len(text),
            echo=text if echo else "",
        )
        return response.chunks() if stream else response.whole()

    __call__ = create_completion

    def create_chat_completion(
        self,
        messages: Sequence[ChatCompletionRequestMessage],
        functions: None = None,
        function_call: None = None,
        tools: Sequence[ChatCompletionTool] | None = None,
        tool_choice: str | None = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        stream: bool = False,
        stop: str | Sequence[str] | None = None,
        seed: int | None = None,
        response_format: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        logits_processor: None = None,
        grammar: None = None,
        logit_bias: Mapping[int, float] | Mapping[str, float] | None = None,
        logprobs: bool | None = None,
        top_logprobs: int | None = None,
    ) -> CreateChatCompletionResponse | Iterator[CreateChatCompletionStreamResponse]:
        """Answer the last message of a conversation. The answer's text is returned as written:
        calls of tools in it are not parsed.

        Args:
            messages: with "role" and "content". Control tokens written in them stay text.
            tools: JSON schemas of functions, for the model's template.
            tool_choice: "auto" or "none", for the model's template.
            logprobs: report log-probabilities; top_logprobs: and of how many likeliest tokens.
            response_format: None or {"type": "text"}.
            functions, function_call: not supported, use tools.

        The other arguments are those of create_completion.

        Raises:
            TemplateError: the model's template fails or refuses the conversation.
            PromptTooLong, UsageError: see create_completion.
        """
        refuse_unsupported(
            functions=functions,
            function_call=function_call,
            tool_choice=tool_choice,
            response_format=response_format,
        )
        tokens = self._chat.encode(messages, tools=tools, tool_choice=tool_choice)
        completion: Any = self.create_completion(
            tokens,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            min_p=min_p,
            typical_p=typical_p,
            logprobs=(top_logprobs or 0) if logprobs else None,
            stop=(*stop_texts(stop), *self._chat.template.stop),
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
            repeat_penalty=repeat_penalty,
            top_k=top_k,
            stream=stream,
            seed=seed,
            tfs_z=tfs_z,
            mirostat_mode=mirostat_mode,
            mirostat_tau=mirostat_tau,
            mirostat_eta=mirostat_eta,
            model=model,
            logits_processor=logits_processor,
            grammar=grammar,
            logit_bias=logit_bias,
        )
        return chat_chunks(completion) if stream else chat_response(completion)

    def generate(
        self,
        tokens: Sequence[int],
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        temp: float = 0.8,
        repeat_penalty: float = 1.0,
        reset: bool = True,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        penalize_nl: bool = True,
        logits_processor: None = None,
        stopping_criteria: None = None,
        grammar: None = None,
    ) -> Iterator[int]:
        """Yield the tokens that follow a prompt, one by one, until an end token (which is not
        yielded) or until the context is full. `reset` changes nothing: what the KV cache already
        holds of the prompt is always reused.
        """
        refuse_unsupported(
            typical_p=typical_p,
            tfs_z=tfs_z,
            mirostat_mode=mirostat_mode,
            stopping_criteria=stopping_criteria,
            logits_processor=logits_processor,
            grammar=grammar,
        )
        sampling = self._sampling(
            temperature=temp,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
            seed=None,
            logit_bias=None,
        )
        completion = self._engine.complete(Request(tuple(tokens), sampling))
        return (token for chunk in completion for token in chunk.token_ids)

    def _prompt(self, prompt: str | Sequence[int]) -> tuple[str, list[int]]:
        """Text and token ids of a prompt. An empty text is the bos token alone."""
        engine = self._engine
        if not isinstance(prompt, str):
            return engine.detokenize(prompt, special=True).decode("utf-8", "replace"), list(prompt)
        tokens = tokenize_text(engine, prompt, add_special=True, parse_special=True)
        return prompt, tokens or [engine.bos_id] * (engine.bos_id >= 0)

    def _sampling(
        self,
        *,
        seed: int | None,
        logit_bias: Mapping[int, float] | Mapping[str, float] | None,
        **params: Any,
    ) -> SamplingParams:
        return SamplingParams(
            penalty_window=self.last_n_tokens_size,
            seed=self._seed if seed is None or seed in RANDOM_SEEDS else seed,
            logit_bias={int(token): float(bias) for token, bias in (logit_bias or {}).items()},
            **params,
        )
