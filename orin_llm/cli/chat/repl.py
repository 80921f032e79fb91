"""The chat's loop: read a message or command, carry it out, and go on whatever went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orin_llm.cli.chat.commands import ALIASES, COMMANDS, Leave, execute, is_command
from orin_llm.cli.chat.lines import Lines, standard_input, unquoted
from orin_llm.cli.chat.screen import Screen
from orin_llm.cli.chat.session import Chat
from orin_llm.cli.chat.settings import Settings
from orin_llm.cli.errors import exit_code_of, print_error
from orin_llm.errors import OrinError

if TYPE_CHECKING:
    from orin_llm.cli.answer_options import AnswerOptions, SamplingOptions
    from orin_llm.cli.options import EngineOptions


def start(answer: AnswerOptions, sampling: SamplingOptions, engine: EngineOptions) -> int:
    """Load the model, hold the chat, and return the exit code."""
    settings = Settings(sampling.params(), answer.limit(), answer.stops())
    screen = Screen(quiet=answer.quiet)
    chat = Chat(engine, settings, screen, answer)
    lines = standard_input(answer.encoding, [*COMMANDS, *ALIASES])
    with chat:
        if lines.interactive:
            screen.notice(f"{chat.model_name}: /help lists the commands, Ctrl-D leaves")
        return converse(chat, lines)


def converse(chat: Chat, lines: Lines) -> int:
    """Take messages until they end. A script's first failure is the exit code; a person saw it."""
    exit_code = 0
    while True:
        try:
            text = _read(chat, lines)
            if text is None:
                return exit_code
            _carry_out(chat, text)
        except Leave:
            return exit_code
        except KeyboardInterrupt:
            if not lines.interactive:
                raise
            chat.screen.notice("stopped")
        except BrokenPipeError:
            raise
        except (OrinError, OSError) as error:
            print_error(error)
            if not lines.interactive:
                exit_code = exit_code or exit_code_of(error)


def _read(chat: Chat, lines: Lines) -> str | None:
    while True:
        try:
            return lines.read()
        except KeyboardInterrupt:
            if not lines.interactive:
                raise
            chat.screen.notice("Ctrl-D or /exit leaves")


def _carry_out(chat: Chat, text: str) -> None:
    if is_command(text):
        execute(chat, text)
    elif unquoted(text).strip():
        chat.say(unquoted(text))
