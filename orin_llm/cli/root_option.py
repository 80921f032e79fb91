"""`--root`, for tests: another folder stands for / where the machine's files are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Root = Annotated[
    Path, typer.Option("--root", hidden=True, help="Folder that stands for / (tests).")
]
