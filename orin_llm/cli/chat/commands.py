"""The chat's slash commands: what each is called, what it takes, what it does."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orin_llm.cli.chat.lines import unquoted
from orin_llm.cli.chat.settings import FLAG_NAMES, PARAMETERS
from orin_llm.errors import UsageError
from orin_llm.text.text_input import read_text_file

if TYPE_CHECKING:
    from orin_llm.cli.chat.session import Chat


class Leave(Exception):
    """The user wants to end the chat."""


@dataclass(frozen=True)
class Command:
    """A command: its action gets the chat and the text after the name."""

    arguments: str
    summary: str
    action: Callable[[Chat, str], None]


def execute(chat: Chat, line: str) -> None:
    """Run a line that begins with a slash. Raises UsageError for what it cannot mean, and Leave."""
    name, arguments = _split(line)
    name = ALIASES.get(name, name)
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, [*COMMANDS, *ALIASES], n=1)
        hint = f"did you mean {close[0]}?" if close else "/help lists what there is"
        raise UsageError(
            f'unknown command {name}: {hint} (text that begins with / goes between """)'
        )
    COMMANDS[name].action(chat, arguments)


def is_command(text: str) -> bool:
    return text.lstrip().startswith("/")


def _help(chat: Chat, _: str) -> None:
    chat.screen.table(
        [
            (f"{name} {command.arguments}".rstrip(), command.summary)
            for name, command in COMMANDS.items()
        ]
        + [
            ('"""', "Opens and closes a message of several lines"),
            ("Ctrl-C", "Stop the answer"),
            ("Ctrl-D", "Leave"),
        ]
    )


def _set(chat: Chat, arguments: str) -> None:
    name, value = _first_word(arguments)
    if name == "parameter":
        name, value = _first_word(value)
    if name == "system":
        return _system(chat, value)
    if not name:
        return chat.screen.table(list(chat.settings.values().items()))
    if not value:
        raise UsageError(
            f"/set {name} needs a value: /set NAME VALUE, with {', '.join(PARAMETERS)}"
        )
    name = FLAG_NAMES.get(name, name)
    chat.settings = chat.settings.with_value(name, value)
    chat.screen.notice(f"{name} is {chat.settings.values()[name]}")


def _show(chat: Chat, arguments: str) -> None:
    views: dict[str, Callable[[], None]] = {
        "info": lambda: chat.screen.table(chat.info()),
        "parameters": lambda: chat.screen.table(list(chat.settings.values().items())),
        "system": lambda: chat.screen.text(chat.system or "(no system prompt)"),
        "template": lambda: chat.screen.text(chat.template.source),
    }
    view = views.get(arguments or "info")
    if view is None:
        raise UsageError(f"/show {arguments}: expected one of {', '.join(views)}")
    view()


def _system(chat: Chat, arguments: str) -> None:
    if not arguments:
        return chat.screen.text(chat.system or "(no system prompt)")
    chat.set_system(None if arguments == "none" else unquoted(arguments))
    chat.screen.notice("the system prompt is " + ("set" if chat.system else "removed"))


def _clear(chat: Chat, _: str) -> None:
    chat.clear()
    chat.screen.notice("the conversation is empty")


def _regenerate(chat: Chat, _: str) -> None:
    chat.regenerate()


def _save(chat: Chat, arguments: str) -> None:
    path = _only_path(arguments, "/save FILE")
    told = chat.save(path)
    _tell(chat, f"saved to {path}", told)


def _save_over(chat: Chat, arguments: str) -> None:
    path = _only_path(arguments, "/save! FILE")
    told = chat.save(path, replace_other=True)
    _tell(chat, f"saved to {path}", told)


def _load(chat: Chat, arguments: str) -> None:
    path = _only_path(arguments, "/load FILE")
    told = chat.load(path)
    _tell(chat, f"loaded {chat.turns} turns from {path}", told)


def _tell(chat: Chat, *lines: str) -> None:
    for line in filter(None, lines):
        chat.screen.notice(line)


def _read(chat: Chat, arguments: str) -> None:
    encoding, rest = _encoding(arguments)
    name, question = _first_word(rest)
    if encoding is None:
        encoding, question = _encoding(question)
    path = _path(name, "/read FILE [--encoding NAME] [QUESTION]")
    text = read_text_file(path, encoding or chat.encoding)
    if question:
        chat.say(f"{unquoted(question)}\n\n{text}")
    else:
        chat.attach(text)
        chat.screen.notice(f"{path} ({len(text)} characters) goes with your next message")


def _stats(chat: Chat, _: str) -> None:
    chat.screen.table(chat.statistics())


def _model(chat: Chat, arguments: str) -> None:
    if not arguments:
        return chat.screen.text(chat.model_name)
    chat.switch_model(arguments)
    chat.screen.notice(f"{chat.model_name} answers from here on")


def _exit(_chat: Chat, _arguments: str) -> None:
    raise Leave


COMMANDS = {
    "/help": Command("", "This list", _help),
    "/set": Command("NAME VALUE", "Change a parameter; without a name: list them", _set),
    "/show": Command("WHAT", "info, parameters, system or template", _show),
    "/system": Command("TEXT", "Set the system prompt; none: remove it", _system),
    "/clear": Command("", "Forget the conversation", _clear),
    "/regen": Command("", "Answer the last message anew", _regenerate),
    "/save": Command("FILE", "Write the conversation to FILE, and its state to FILE.kv", _save),
    "/save!": Command("FILE", "The same, in place of another conversation", _save_over),
    "/load": Command("FILE", "Take up a saved conversation, and its state if that fits", _load),
    "/read": Command(
        "FILE [QUESTION]",
        "Send a text file (not UTF-8: --encoding NAME), with a question or the next message",
        _read,
    ),
    "/stats": Command("", "Figures of the last answer and of the chat", _stats),
    "/model": Command("NAME", "Go on with another model", _model),
    "/exit": Command("", "Leave", _exit),
}
ALIASES = {"/?": "/help", "/bye": "/exit", "/quit": "/exit"}


def _first_word(text: str) -> tuple[str, str]:
    """Split off the first word, which may be quoted, from the text after it."""
    if quoted := re.match(r"""(["'])(.+?)\1(?:\s+|$)""", text, re.DOTALL):
        return quoted[2], text[quoted.end() :].strip()
    return _split(text)


def _split(text: str) -> tuple[str, str]:
    word, *rest = text.split(maxsplit=1) or [""]
    return word, "".join(rest).strip()


def _encoding(text: str) -> tuple[str | None, str]:
    """Split off the flag `--encoding NAME` if the text begins with it."""
    flag = re.match(r"--encoding(?:=|\s+|$)(\S*)\s*", text)
    if flag is None:
        return None, text
    if not flag[1]:
        raise UsageError("expected a name after --encoding, such as utf-16 or cp1252")
    return flag[1], text[flag.end() :]


def _only_path(text: str, usage: str) -> Path:
    name, rest = _first_word(text)
    if rest:
        raise UsageError(f"expected one file name: {usage} (in quotes if it has spaces)")
    return _path(name, usage)


def _path(name: str, usage: str) -> Path:
    if not name:
        raise UsageError(f"expected a file name: {usage}")
    return Path(os.path.expanduser(name))
