"""What the user sees of an answer: its text, made safe for a terminal, and its figures, or JSON."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from orin_llm.errors import OrinError

if TYPE_CHECKING:
    from orin_llm.cli.wrap import LineWrapper
    from orin_llm.engine import Completion, Result

LONG_PROMPT_TOKENS = 512  # from here on, the wait for the first token is worth a word
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """The text with control characters, which a terminal obeys, as ^X (not line end and tab)."""
    return _CONTROLS.sub(lambda found: "^" + chr(ord(found[0]) % 0x80 ^ 0x40), text)


def tolerate_narrow_encoding(stream: TextIO) -> None:
    """Write `?` for what the stream's encoding lacks: an answer must not end for an emoji."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


class AnswerWriter:
    """Writes an answer to stdout as it comes, and ends it with one newline.

    On a terminal it is wrapped between words, in the width that the terminal has at that moment.
    """

    def __init__(self) -> None:
        self._wrapper: LineWrapper | None = None
        if sys.stdout.isatty():
            from orin_llm.cli.wrap import LineWrapper

            self._wrapper = LineWrapper()
        self._written = ""
        self._announced = ""
        tolerate_narrow_encoding(sys.stdout)

    def stream(self, completion: Completion) -> Result:
        """Write all chunks. What there is when Ctrl-C or an error ends it stays written."""
        self._announce(completion)
        try:
            for chunk in completion:
                self._write(chunk.text)
        except (KeyboardInterrupt, OrinError):
            self._unannounce()
            completion.close()
            self._write(completion.result.text[len(self._written) :])  # held back for a stop string
            if self._written:
                self._end()
            raise
        self._end()
        return completion.result

    def _announce(self, completion: Completion) -> None:
        """On a terminal, say that a long prompt is read; the answer takes its place."""
        tokens = completion.prompt_tokens
        if tokens >= LONG_PROMPT_TOKENS and self._wrapper and sys.stderr.isatty():
            self._announced = f"reading the prompt: {tokens} tokens …"
            print(self._announced, end="\r", file=sys.stderr, flush=True)

    def _unannounce(self) -> None:
        if self._announced:
            blank = " " * len(self._announced)
            print(blank, end="\r", file=sys.stderr, flush=True)
            self._announced = ""

    def _write(self, text: str) -> None:
        if text:
            self._unannounce()
            self._written += text
            self._show(self._wrapper.feed(visible(text), _columns()) if self._wrapper else text)

    def _end(self) -> None:
        if self._wrapper:
            self._show(self._wrapper.flush(_columns()))
        if not self._written.endswith("\n"):
            self._show("\n")

    def _show(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _columns() -> int:
    return shutil.get_terminal_size().columns


def statistics(result: Result) -> list[str]:
    """The figures of one answer, each a short phrase."""
    timings = result.timings
    figures = [
        f"prompt {result.prompt_tokens} tokens ({result.cached_tokens} cached)",
        f"answer {result.completion_tokens} tokens",
    ]
    if result.completion_tokens:
        figures.append(f"TTFT {timings.ttft_ms:.0f} ms")
    if timings.itl_ms:
        figures += [
            f"TPOT {timings.tpot_ms:.1f} ms (p95 {timings.itl_percentile_ms(95):.1f})",
            f"{timings.decode_tokens_per_s:.1f} tokens/s",
            f"{timings.bandwidth_bytes_per_s / 1e9:.1f} GB/s",
        ]
    if result.finish_reason == "length":
        figures.append("ended by its length")
    return figures


def statistics_text(result: Result) -> str:
    """The figures in as few lines as the terminal's width allows, broken between figures."""
    return "\n".join(joined(statistics(result), " | ", _columns() - 1))


def joined(phrases: Iterable[str], separator: str, width: int) -> list[str]:
    """The phrases in as few lines of at most `width` characters as hold them, none broken."""
    lines: list[str] = []
    for phrase in phrases:
        if lines and len(lines[-1]) + len(separator) + len(phrase) <= width:
            lines[-1] += separator + phrase
        else:
            lines.append(phrase)
    return lines


def print_statistics(result: Result) -> None:
    print(statistics_text(result), file=sys.stderr, flush=True)


def print_answer(completion: Completion, *, quiet: bool) -> None:
    """Stream the answer; what Ctrl-C leaves of it stays, with its statistics."""
    try:
        AnswerWriter().stream(completion)
    except KeyboardInterrupt:
        if not quiet:
            print_statistics(completion.result)
        raise
    if not quiet:
        print_statistics(completion.result)


def print_json(completion: Completion, backend: dict[str, object]) -> None:
    """Print the result as one JSON object; after Ctrl-C, which goes on, that of what was there."""
    try:
        for _ in completion:
            pass
    except KeyboardInterrupt:
        completion.close()
        _print_result(completion.result, backend)
        raise
    _print_result(completion.result, backend)


def _print_result(result: Result, backend: dict[str, object]) -> None:
    print(json.dumps({**result.to_dict(), "backend": backend}))
