"""`orin-llm run`: one prompt in, one answer out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.answer_options import ANSWER, AnswerOptions, SamplingOptions
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import EngineOptions, flag
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.engine import Engine

PROMPT = "Prompt (default: standard input)"


@with_option_groups
def run(
    ctx: typer.Context,
    prompt: Annotated[
        str | None, flag("-p", "--prompt", panel=PROMPT, help="The prompt itself.")
    ] = None,
    file: Annotated[
        Path | None,
        flag("-f", "--file", panel=PROMPT, help="File that holds it; -: standard input."),
    ] = None,
    raw: Annotated[
        bool,
        flag("--raw", panel=PROMPT, help="Continue the text as it is, without the chat template."),
    ] = False,
    *,
    answer: AnswerOptions,
    as_json: Annotated[
        bool, flag("--json", panel=ANSWER, help="Print one JSON object: text, token ids, timings.")
    ] = False,
    sampling: SamplingOptions,
    engine: EngineOptions,
) -> None:
    """Answer one prompt and exit: the answer on stdout, statistics on stderr.

    A flag that is not given is read from the environment: --ctx-size from ORIN_LLM_CTX_SIZE.
    """
    from orin_llm.cli.progress import load_engine
    from orin_llm.cli.prompt import read_prompt
    from orin_llm.cli.render import print_answer, print_json
    from orin_llm.engine import Request
    from orin_llm.models.store import resolve

    if raw and answer.system is not None:
        raise UsageError("--system has no place in --raw text: write it into the prompt")
    config, params = engine.config(quiet=answer.quiet), sampling.params()
    limit, stops = answer.limit(), answer.stops()
    path = resolve(engine.model)
    text = read_prompt(ctx, prompt, file, answer.encoding)
    with load_engine(path, config, quiet=answer.quiet) as loaded:
        if raw:
            tokens = loaded.tokenize(text)
        else:
            tokens, more_stops = chat_prompt(loaded, text, answer.system)
            stops += more_stops
        completion = loaded.complete(Request(tokens, params, limit, stops))
        if as_json:
            print_json(completion, loaded.backend)
        else:
            print_answer(completion, quiet=answer.quiet)


def chat_prompt(engine: Engine, text: str, system: str | None) -> tuple[list[int], tuple[str, ...]]:
    """The tokens of a chat of one message in the model's template, and where its answer stops."""
    from orin_llm.cli.template import chat_template
    from orin_llm.text.encode import encode_chat

    template = chat_template(engine)
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return encode_chat(engine, template, messages), template.stop
