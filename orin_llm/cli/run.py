"""`orin-llm run`: one prompt in, one answer out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orin_llm.cli.errors import INTERRUPTED
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import ANSWER, AnswerOptions, EngineOptions, SamplingOptions, flag
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.engine import Completion, Engine

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
    from orin_llm.engine import Request
    from orin_llm.models.store import resolve

    if raw and answer.system is not None:
        raise UsageError("--system has no place in --raw text: write it into the prompt")
    config, params = engine.config(), sampling.params()
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


def read_prompt(ctx: Any, prompt: str | None, file: Path | None, encoding: str | None) -> str:
    """The prompt: by a flag, else by the environment, else from standard input."""
    from orin_llm.cli.text_input import argument_text, read_text, read_text_file

    if prompt is not None and file is not None:
        given = [name for name in ("prompt", "file") if _on_command_line(ctx, name)]
        if len(given) != 1:
            raise UsageError("both --prompt and --file are given: expected one of them")
        prompt, file = (prompt, None) if given == ["prompt"] else (None, file)
    if prompt is not None:
        text = argument_text(prompt, "the prompt", encoding)
    elif file is not None and str(file) != "-":
        text = _without_last_newline(read_text_file(file, encoding))
    else:
        if sys.stdin is None:
            raise UsageError("standard input is closed: give the prompt with -p TEXT or -f FILE")
        if sys.stdin.isatty():
            print("Type the prompt; Ctrl-D on an empty line ends it.", file=sys.stderr)
        text = _without_last_newline(read_text(sys.stdin.buffer, "standard input", encoding))
    if not text.strip():
        raise UsageError("the prompt is empty: give it with -p TEXT, -f FILE or on standard input")
    return text


def _on_command_line(ctx: Any, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _without_last_newline(text: str) -> str:
    """A file's last line ends in a newline that is not meant as part of the prompt."""
    return text.removesuffix("\n").removesuffix("\r")


def chat_prompt(engine: Engine, text: str, system: str | None) -> tuple[list[int], tuple[str, ...]]:
    """The tokens of a chat of one message in the model's template, and where its answer stops."""
    from orin_llm.cli.template import chat_template
    from orin_llm.text.encode import encode_chat

    template = chat_template(engine)
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return encode_chat(engine, template, messages), template.stop


def print_answer(completion: Completion, *, quiet: bool) -> None:
    """Stream the answer; what Ctrl-C leaves of it stays, with its statistics."""
    from orin_llm.cli.render import AnswerWriter, print_statistics

    try:
        AnswerWriter().stream(completion)
    except KeyboardInterrupt:
        if not quiet:
            print_statistics(completion.result)
        raise
    if not quiet:
        print_statistics(completion.result)


def print_json(completion: Completion, backend: dict[str, object]) -> None:
    """Print the result as one JSON object; after Ctrl-C that of what was there."""
    exit_code = 0
    try:
        for _ in completion:
            pass
    except KeyboardInterrupt:
        completion.close()
        exit_code = INTERRUPTED
    print(json.dumps({**completion.result.to_dict(), "backend": backend}))
    raise typer.Exit(exit_code)
