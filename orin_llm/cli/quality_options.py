"""The flags of every command that reads a text to judge a model by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orin_llm.cli.options import flag

if TYPE_CHECKING:
    from orin_llm.quality.texts import Corpus

TEXT = "Text"

TextFlag = Annotated[
    Path | None,
    flag(
        "-f",
        "--text",
        panel=TEXT,
        help="A text file, a folder of them, or records in JSONL; the text that ships if not "
        "given.",
    ),
]
WindowsFlag = Annotated[
    int | None,
    flag(
        "--chunks",
        "--windows",
        panel=TEXT,
        min=1,
        help="The first so many windows; all if not given.",
    ),
]
EncodingFlag = Annotated[
    str | None,
    flag("--encoding", panel=TEXT, help="Encoding of the text, if not UTF-8."),
]


def calibration_corpus(path: Path | None, encoding: str | None) -> Corpus:
    """The user's text, or the one that ships for calibrating."""
    from orin_llm.quality.texts import calibration_text, read_text

    return calibration_text() if path is None else read_text(path, encoding)


def evaluation_corpus(path: Path | None, encoding: str | None) -> Corpus:
    """The user's text, or the one that ships for evaluating."""
    from orin_llm.quality.texts import evaluation_text, read_text

    return evaluation_text() if path is None else read_text(path, encoding)
