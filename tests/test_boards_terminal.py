"""Every command about the machine, on every fake board, as a person at a terminal sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pexpect
import pytest
from fakes.boards import JETSONS, Machine, jetson, pc, pc_with_gpu
from processes import CLI, environment

WIDTH = 80
ESCAPES = re.compile(r"\x1b\[[?<>=]?[0-9;$]*[A-Za-z]")
COMMANDS = ("doctor --no-load", "setup plan", "monitor --once", "estimate")
SEEN = {"doctor": "power mode", "setup": "to change", "monitor": "GPU memory", "estimate": "floor"}


def make(kind: str, folder: Path) -> Machine:
    if kind in JETSONS:
        return jetson(folder, JETSONS[kind])
    return pc(folder) if kind == "pc" else pc_with_gpu(folder)


def at_terminal(machine: Machine, home: Path, *arguments: str) -> tuple[str, int]:
    """What is shown, and the exit code."""
    child = pexpect.spawn(
        CLI[0],
        [*CLI[1:], *arguments, "--root", str(machine.root)],
        env=environment(
            PATH=machine.path, HOME=str(home), TERM="xterm-256color", ORIN_LLM_MODELS="/none"
        ),
        dimensions=(24, WIDTH),
        encoding="utf-8",
        timeout=120,
    )
    shown = child.read()
    child.close()
    assert child.signalstatus is None
    return ESCAPES.sub("", shown).replace("\r\n", "\n"), child.exitstatus


@pytest.mark.parametrize("kind", [*JETSONS, "pc", "pc-gpu"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_tells_of_the_board_within_the_terminal(
    kind: str, command: str, tiny_model: Path, tmp_path: Path
) -> None:
    words = command.split()
    if words[0] in ("doctor", "estimate"):
        words.insert(1, str(tiny_model))
    shown, code = at_terminal(make(kind, tmp_path), tmp_path, *words)
    assert "Traceback" not in shown and "\x1b" not in shown
    is_jetson = kind in JETSONS
    if words[0] == "setup" and not is_jetson:
        assert code == 4 and "the setup is for Jetson boards" in shown
        return
    assert code == (1 if words[0] == "doctor" and kind != "pc" else 0), shown
    if is_jetson:
        assert SEEN[words[0]] in shown and JETSONS[kind].mode in shown
    if words[0] in ("doctor", "monitor"):  # others print files and sentences as they are
        assert max(map(len, shown.splitlines())) <= WIDTH
