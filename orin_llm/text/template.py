"""Chat templates: the Jinja2 programs of model files, rendered as transformers renders them.

The settings are facts of transformers' renderer (version 5.24): blocks are trimmed, loop controls
and the `generation` tag exist, `tojson` neither escapes HTML nor non-ASCII, messages are plain data
with absent keys instead of None, `raise_exception` and `strftime_now` are functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import jinja2

from orin_llm.errors import OrinError
from orin_llm.text.limits import LimitExceeded, Limits
from orin_llm.text.sandbox import TemplateSandbox

Message = Mapping[str, Any]

# What a model without a template of its own is asked with: ChatML.
DEFAULT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
DEFAULT_STOP = ("<|im_end|>",)

# Names under which programs pass a message's reasoning; templates read the first or the second.
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")


class TemplateError(OrinError):
    """A chat template that cannot be read, fails, or refuses the conversation. Names the line."""


class ChatTemplate:
    """A chat template, compiled at its first use.

    Args:
        source: Jinja2 source, or None where the model file has no template: then DEFAULT_TEMPLATE
            is used and `is_default` says so, because the model may never have seen that form.
        bos_token, eos_token: texts of these tokens; templates write them.
        limits: bounds for templates that would not end.
        now: what `strftime_now` formats.
    """

    def __init__(
        self,
        source: str | None,
        *,
        bos_token: str,
        eos_token: str,
        limits: Limits | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.is_default = source is None
        self.source = DEFAULT_TEMPLATE if source is None else source
        self.bos_token = bos_token
        self.eos_token = eos_token
        self._limits = limits or Limits()
        self._now = now

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings an answer needs where the model may not know the template's end token."""
        return DEFAULT_STOP if self.is_default else ()

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """Render a conversation.

        Args:
            messages: with "role" and "content" and what else the template reads.
            add_generation_prompt: end with the beginning of the assistant's answer.
            tools: JSON schemas of functions.
            variables: what else the template reads, such as `enable_thinking`.

        Raises:
            TemplateError: the template is wrong, too costly, or refuses the conversation.
        """
        try:
            return self._program.render_text(
                {
                    "messages": prepare_messages(messages),
                    "tools": plain_data(tools),
                    "documents": None,  # as in transformers: templates may ask `is none`
                    "add_generation_prompt": add_generation_prompt,
                    "bos_token": self.bos_token,
                    "eos_token": self.eos_token,
                    **plain_data(variables),
                }
            )
        except TemplateError:
            raise
        except Refused as error:
            raise TemplateError(f"{_place(error)} refuses this conversation: {error}") from error
        except LimitExceeded as error:
            raise TemplateError(f"{_place(error)} was stopped: {error}") from error
        except Exception as error:  # A template is a program: any error can come out of it.
            raise TemplateError(f"{_place(error)} failed: {_describe(error)}") from error

    @cached_property
    def _program(self) -> TemplateSandbox:
        program = TemplateSandbox(self._limits)
        program.globals["raise_exception"] = _refuse
        program.globals["strftime_now"] = lambda form: self._now().strftime(form)
        try:
            program.compile_source(self.source)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"the chat template cannot be read: line {error.lineno}: {error.message}"
            ) from error
        except LimitExceeded as error:
            raise TemplateError(f"the chat template is refused: {error}") from error
        except Exception as error:
            raise TemplateError(f"the chat template cannot be read: {_describe(error)}") from error
        return program


class Refused(jinja2.TemplateError):
    """`raise_exception` was called by the template."""


def _refuse(message: object) -> None:
    raise Refused(str(message))


def prepare_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages as templates see them: plain data, no None, reasoning under the names they read."""
    prepared = []
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise TemplateError(
                f"a message is a {type(message).__name__}: expected a mapping with role and content"
            )
        if not isinstance(message.get("role"), str):
            raise TemplateError(
                f"message {number} has no role: expected 'user', 'assistant' or 'system', as text"
            )
        plain = {key: plain_data(value) for key, value in message.items() if value is not None}
        reasoning = next((plain[key] for key in REASONING_KEYS if key in plain), None)
        if reasoning is not None:
            plain = {"thinking": reasoning, **plain, "reasoning_content": reasoning}
        prepared.append(plain)
    return prepared


def plain_data(value: Any) -> Any:
    """Rebuild a value of JSON types only: no method of a richer object is in a template's reach."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {plain_data(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_data(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain_data(item) for item in value)
    # Of an enumeration's member, a NumPy number … only the value is kept.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return f"<{type(value).__name__}>"


def _place(error: Exception) -> str:
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == TemplateSandbox.FILE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return "the chat template" if line is None else f"the chat template (line {line})"


def _describe(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
