"""Chats over pipes, and what their figures say."""

from __future__ import annotations

import re
from pathlib import Path

from processes import CLI, environment, run


class Chatter:
    """Runs a chat on lines of input, greedily and with short answers."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.environment = environment(
            ORIN_LLM_MODEL=str(model),
            ORIN_LLM_TEMP="0",
            ORIN_LLM_THREADS="1",
            ORIN_LLM_CTX_SIZE="1024",
            ORIN_LLM_MAX_TOKENS="6",
            XDG_STATE_HOME=str(folder),
        )
        self.folder = folder

    def __call__(self, *lines: str | bytes, flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
        data = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)
        done = run([*CLI, "chat", *flags], data, env=self.environment, cwd=self.folder)
        return done.returncode, done.stdout, done.stderr


def prompts(err: str) -> list[tuple[int, int]]:
    """Prompt tokens and cached ones of each answer, from the figures."""
    return [(int(a), int(b)) for a, b in re.findall(r"prompt (\d+) tokens \((\d+) cached\)", err)]
