"""The chat template of a loaded model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_llm.engine import Engine
    from orin_llm.text.template import ChatTemplate


def chat_template(engine: Engine) -> ChatTemplate:
    """The model's template; a model without one gets a common form, and the user is told."""
    from orin_llm.text.model_template import model_template

    return model_template(engine, _warn)


def _warn(message: str) -> None:
    print(f"{message} (orin-llm run --raw continues a text)", file=sys.stderr)
