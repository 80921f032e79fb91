"""`orin-llm chat`: a conversation with a model."""

from __future__ import annotations

import typer

from orin_llm.cli.answer_options import AnswerOptions, SamplingOptions
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import EngineOptions


@with_option_groups
def chat(answer: AnswerOptions, sampling: SamplingOptions, engine: EngineOptions) -> None:
    """Talk with a model, turn by turn; /help in the chat lists its commands.

    Lines of a standard input that is no terminal are turns. A flag that is not given is read from
    the environment: --ctx-size from ORIN_LLM_CTX_SIZE.
    """
    from orin_llm.cli.chat.repl import start

    raise typer.Exit(start(answer, sampling, engine))
