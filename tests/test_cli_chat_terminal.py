"""`orin-llm chat` on a pseudo-terminal: editing, Ctrl-C and Ctrl-D, plain and narrow terminals."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

PROMPT = ">>>"
FIGURES = r"prompt (\d+) tokens \((\d+) cached\)"
Start = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def start(smollm2: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts chats, and ends those that a failing test left running."""
    children: list[pexpect.spawn[str]] = []

    def spawn(*flags: str, columns: int = 80, **environment: str) -> pexpect.spawn[str]:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "orin_llm.cli", "chat", "-m", str(smollm2), "--temp", "0", "-t", "1", *flags],
            env={
                **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
                "TERM": "xterm-256color",
                "XDG_STATE_HOME": str(tmp_path),
                **environment,
            },
            cwd=str(tmp_path),
            dimensions=(24, columns),
            encoding="utf-8",
            timeout=120,
        )
        children.append(child)
        child.expect(PROMPT)
        return child

    yield spawn
    for child in children:
        child.close(force=True)


def send(child: Any, line: str) -> None:
    child.send(line + "\r")


def leave(child: Any) -> None:
    child.send("\x04")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_turn_is_answered_and_ctrl_d_leaves(start: Start) -> None:
    child = start("-n", "8")
    send(child, "Hello.")
    child.expect(FIGURES)
    child.expect(PROMPT)
    send(child, "/nonsense")
    child.expect("unknown command /nonsense")
    child.expect(PROMPT)
    leave(child)


def test_ctrl_c_stops_the_answer_and_keeps_it_with_its_kv(start: Start) -> None:
    child = start("-c", "4096")
    send(child, "Write a very long story about the sea.")
    child.expect(r"\?2004l")  # the input line is closed
    child.expect(r"[a-z]+ [a-z]+ ")
    child.sendintr()
    child.expect(FIGURES)
    first = int(child.match[1])
    child.expect(r"answer (\d+) tokens")
    answered = int(child.match[1])
    child.expect("stopped")
    child.expect(PROMPT)
    send(child, "/set max_tokens 4")
    child.expect("max_tokens is 4")
    child.expect(PROMPT)
    send(child, "Go on.")
    child.expect(FIGURES)
    assert int(child.match[2]) >= (first + answered - 1) // 16 * 16
    child.expect(PROMPT)
    leave(child)


def test_ctrl_c_at_the_prompt_hints_at_ctrl_d(start: Start) -> None:
    child = start()
    child.send("\x03")
    child.expect("Ctrl-D or /exit leaves")
    child.expect(PROMPT)
    child.send("half a line\x03")
    child.expect(PROMPT)
    leave(child)


@pytest.mark.parametrize("keys", ['"""one\rtwo"""', "\x1b[200~one\ntwo\x1b[201~", "one\x1b\rtwo"])
def test_a_message_may_have_several_lines(start: Start, keys: str) -> None:
    child = start("-n", "2")
    send(child, keys)
    child.expect(FIGURES)
    child.expect(PROMPT)
    send(child, "/save chat.json")
    child.expect("saved to")
    child.expect(PROMPT)
    leave(child)
    assert '"one\\ntwo"' in (Path(str(child.cwd)) / "chat.json").read_text()


def test_history_is_kept_for_the_user_alone(start: Start, tmp_path: Path) -> None:
    child = start()
    send(child, "/show system")
    child.expect("no system prompt")
    child.expect(PROMPT)
    leave(child)
    history = tmp_path / "orin-llm/chat_history"
    assert "/show system" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    again = start()
    again.send("\x1b[A")
    again.expect("/show system")
    again.send("\r")
    again.expect("no system prompt")
    again.expect(PROMPT)
    leave(again)


def test_a_state_folder_that_cannot_be_written_only_costs_the_history(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "orin-llm").write_text("a file where the folder should be")
    child = start()
    send(child, "/show system")
    child.expect("no system prompt")
    child.expect(PROMPT)
    leave(child)


def test_tab_completes_commands(start: Start) -> None:
    child = start()
    child.send("/sys\t")
    child.expect("tem")
    child.send("\r")
    child.expect("no system prompt")
    child.expect(PROMPT)
    leave(child)


def test_a_dumb_terminal_gets_plain_text(start: Start) -> None:
    child = start("-n", "4", TERM="dumb")
    child.logfile_read = log = _Log()
    send(child, "Hello.")
    child.expect(FIGURES)
    child.expect(PROMPT)
    child.send("\x03")
    child.expect("Ctrl-D or /exit leaves")
    child.expect(PROMPT)
    send(child, '"""one')
    child.expect(r"\.\.\.")
    send(child, 'two"""')
    child.expect(FIGURES)
    child.expect(PROMPT)
    leave(child)
    assert "\x1b" not in log.text


@pytest.mark.parametrize("no_color, coloured", [("", True), ("1", False)])
def test_no_color_is_honoured(start: Start, no_color: str, coloured: bool) -> None:
    child = start("-n", "2", NO_COLOR=no_color)
    child.logfile_read = log = _Log()
    send(child, "/set top_k 3")
    child.expect("top_k is 3")
    child.expect(PROMPT)
    leave(child)
    assert bool(re.search(r"\x1b\[(3[1-7]|9[0-7])m", log.text)) == coloured


def test_twenty_columns_are_enough(start: Start) -> None:
    child = start("-n", "4", columns=20)
    for command in ("/help", "/show", "/show parameters", "/stats"):
        send(child, command)
        child.expect(PROMPT)
    send(child, "Hello.")
    child.expect("answer 4 tokens")
    child.expect(PROMPT)
    leave(child)


def test_answers_are_wrapped_between_words_also_after_a_resize(
    start: Start, tmp_path: Path
) -> None:
    child = start("-n", "60", columns=60)
    shown = []
    for columns in (60, 30):
        child.setwinsize(24, columns)
        send(child, "Tell me about the sea.")
        child.expect(FIGURES)
        output = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", child.before)
        rows = output.rpartition("Tell me about the sea.")[2].splitlines()  # redrawn at a resize
        assert max(map(len, rows)) in range(columns - 15, columns + 1)
        shown.append(rows)
        child.expect(PROMPT)
    send(child, "/save chat.json")
    child.expect("saved to")
    child.expect(PROMPT)
    leave(child)
    messages = json.loads((tmp_path / "chat.json").read_text())["messages"]
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    assert [" ".join(rows).split() for rows in shown] == [answer.split() for answer in answers]


class _Log:
    """Collects what the child writes."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_a_long_prompt_is_announced_until_the_answer_comes(start: Start) -> None:
    child = start("-n", "2")
    send(child, "The sea was calm. " * 200)
    child.expect(r"reading the prompt: \d+ tokens")
    child.expect(PROMPT)
