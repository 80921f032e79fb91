"""The pictures of a report as PNG files in a folder."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from orin_llm.bench.pictures import pictures
from orin_llm.bench.result import Report
from orin_llm.errors import OrinError, UsageError
from orin_llm.plots.charts import save_png


def require_folder(folder: Path) -> None:
    """Make the folder if it is missing: asked before long work.

    Raises:
        UsageError: something else has its name.
        OrinError: it cannot be made, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # what a directory allows is known for sure when asked
            pass
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"--plot {folder}: this is no directory: name one for the files") from None
    except OSError as error:
        raise OrinError(
            f"--plot {folder}: {error.strerror or error}: name a directory that can be written to"
        ) from None


def write_pictures(report: Report[Any], folder: Path) -> list[Path]:
    """The files, in the order of the report; those of the same names are replaced.

    Raises:
        OrinError: one cannot be written; those before it are there.
    """
    written = []
    for picture in pictures(report):
        path = folder / f"{picture.name}.png"
        save_png(picture.draw(), path)
        written.append(path)
    return written
