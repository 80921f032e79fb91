"""The chat template that a model file brings, or the common form for one that brings none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from orin_llm.text.template import ChatTemplate


class TemplatedModel(Protocol):
    """What is needed of a model; an Engine is one."""

    @property
    def chat_template(self) -> str | None: ...
    @property
    def bos_token(self) -> str: ...
    @property
    def eos_token(self) -> str: ...

    model_path: Path


def model_template(model: TemplatedModel, warn: Callable[[str], None]) -> ChatTemplate:
    """The model's template; for a model without one ChatML, after a warning."""
    if model.chat_template is None:
        warn(
            f"{model.model_path.name} has no chat template: it is asked in ChatML, which it may "
            "not know"
        )
    return ChatTemplate(model.chat_template, bos_token=model.bos_token, eos_token=model.eos_token)
