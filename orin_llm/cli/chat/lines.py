"""Where the chat's messages come from: a terminal, or the lines of standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TextIO

from orin_llm.errors import OrinError, UsageError
from orin_llm.text.text_input import MAX_TEXT_BYTES, argument_text, decode_text, read_text

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.output import Output

QUOTES = '"""'
PROMPT = ">>> "
CONTINUATION = "... "


class Lines(Protocol):
    """A source of messages; one may have several lines."""

    interactive: bool

    def read(self) -> str | None:
        """The next message, None at the end. Ctrl-C raises KeyboardInterrupt."""
        ...


def is_complete(text: str) -> bool:
    '''Whether a message is whole: what opens with """ (a command's text too) waits for its end.'''
    text = text.strip()
    if not text.startswith((QUOTES, "/")):
        return True
    _, opening, rest = text.partition(QUOTES)
    return not opening or rest.endswith(QUOTES)


def unquoted(text: str) -> str:
    '''The message without its enclosing """; other text as it is.'''
    stripped = text.strip()
    if (
        len(stripped) >= 2 * len(QUOTES)
        and stripped.startswith(QUOTES)
        and stripped.endswith(QUOTES)
    ):
        return stripped[len(QUOTES) : -len(QUOTES)].strip("\n")
    return text


def standard_input(encoding: str | None, words: Sequence[str]) -> Lines:
    """The messages of standard input; `words` are completed with Tab where the terminal can."""
    if sys.stdin is None:
        raise UsageError("standard input is closed: chat reads its messages there")
    if not sys.stdin.isatty():
        return StreamLines(sys.stdin.buffer, encoding)
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return StreamLines(sys.stdin.buffer, encoding, interactive=True)
    return TerminalLines(words)


class StreamLines:
    """Lines of a stream, each a message: piped input, or a terminal that can do no more than that.

    Args:
        stream: bytes; undecodable ones are an OrinError, after which the next line can be read.
        encoding: of the text, if not UTF-8.
        interactive: someone types: ask with a prompt.
    """

    def __init__(
        self, stream: BinaryIO, encoding: str | None, *, interactive: bool = False
    ) -> None:
        if encoding is not None and not interactive:
            # Where lines end in, say, UTF-16 is only known when it is decoded.
            text = read_text(stream, "standard input", encoding)
            stream, encoding = BytesIO(text.encode("utf-8")), None
        self.interactive = interactive
        self._stream = stream
        self._encoding = encoding
        self._count = 0

    def read(self) -> str | None:
        text = self._line(PROMPT)
        while text is not None and not is_complete(text):
            line = self._line(CONTINUATION)
            if line is None:
                break
            text += line
        return text and text.rstrip("\r\n")

    def _line(self, prompt: str) -> str | None:
        data = b""
        if self.interactive:
            print(prompt, end="", flush=True, file=_terminal())
        try:
            data = self._stream.readline(MAX_TEXT_BYTES + 1)
        finally:
            if self.interactive and not data:  # Ctrl-C or Ctrl-D: no line end was typed
                print(file=_terminal(), flush=True)
        self._count += 1
        where = f"line {self._count} of standard input"
        if len(data) > MAX_TEXT_BYTES:
            raise OrinError(f"{where} is longer than {MAX_TEXT_BYTES >> 20} MiB")
        return decode_text(data, where, self._encoding) if data else None


class TerminalLines:
    """A terminal: editing, history and completion of commands. Pasted line ends do not send."""

    interactive = True

    def __init__(self, words: Sequence[str]) -> None:
        self._session = _prompt_session(words)

    def read(self) -> str | None:
        while True:
            try:
                return argument_text(self._session.prompt(), "the message")
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._session.default_buffer.text:
                    raise
                # Ctrl-C on a line that was begun only discards it.


def _prompt_session(words: Sequence[str]) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter

    return PromptSession(
        message=PROMPT,
        multiline=True,  # our Enter decides; see _keys
        prompt_continuation=lambda _width, _line, wraps: "" if wraps else CONTINUATION,
        history=_history(state_folder() / "chat_history"),
        completer=WordCompleter(list(words), sentence=True),
        complete_while_typing=False,
        key_bindings=_keys(),
        enable_suspend=True,
        output=_output(),
    )


def _output() -> Output:
    from prompt_toolkit.output.vt100 import Vt100_Output

    output = Vt100_Output.from_pty(_terminal(), term=os.environ.get("TERM"))
    # No cursor position requests: their answers would mix with what is typed ahead.
    output.enable_cpr = False
    return output


def _terminal() -> TextIO:
    """Where a person sees the prompt: not on a standard output that goes elsewhere."""
    return sys.stdout if sys.stdout.isatty() else sys.stderr


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def send_or_continue(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    @keys.add("escape", "enter")
    def continue_anyway(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    return keys


def state_folder() -> Path:
    """`orin-llm` in the user's state directory (XDG_STATE_HOME, else ~/.local/state)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "orin-llm"


def _history(path: Path) -> History:
    """History in a file that only the user can read; in memory where there can be no file."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class ForgivingFileHistory(FileHistory):
        def load_history_strings(self) -> Iterable[str]:
            try:
                return list(super().load_history_strings())
            except OSError:
                return []

        def store_string(self, string: str) -> None:
            # Neither a full disk nor bytes that are no text are a reason to end the chat.
            with suppress(OSError, UnicodeError):
                super().store_string(string)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return ForgivingFileHistory(str(path))
