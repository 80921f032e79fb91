"""The chat template of a loaded model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_llm.engine import Engine
    from orin_llm.text.template import ChatTemplate


def chat_template(engine: Engine) -> ChatTemplate:
    """The model's template; a model without one gets a common form, and the user is told."""
    from orin_llm.text.template import ChatTemplate

    template = ChatTemplate(
        engine.chat_template, bos_token=engine.bos_token, eos_token=engine.eos_token
    )
    if template.is_default:
        print(
            f"{engine.model_path.name} has no chat template: it is asked in ChatML, "
            "which it may not know (orin-llm run --raw continues a text)",
            file=sys.stderr,
        )
    return template
