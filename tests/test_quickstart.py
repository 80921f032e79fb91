"""The first script that somebody runs: what it does with words that are no prompt."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/quickstart.sh"


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("-h", 0), ("--bogus", 2), ("-n", 2)])
def test_a_flag_is_no_prompt(word: str, code: int) -> None:
    done = subprocess.run([SCRIPT, word], capture_output=True, text=True, check=False)
    assert done.returncode == code and done.stdout == ""
    assert done.stderr.startswith("From a clean checkout") and "opens a chat" in done.stderr
