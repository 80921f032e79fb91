"""The prompt of `orin-llm run`: a flag, a file, the environment or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from orin_llm.errors import UsageError
from orin_llm.text.text_input import argument_text, read_text, read_text_file


def read_prompt(ctx: Any, prompt: str | None, file: Path | None, encoding: str | None) -> str:
    """The prompt: by a flag, else by the environment, else from standard input."""
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
