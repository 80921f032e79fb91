"""Programs that are asked something: they get no input, and only so much time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def ask(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its exit status.

    Raises:
        OSError: it cannot be started, or (TimeoutError) was killed because it did not end in time.
    """
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{command[0]} has not ended in {timeout_s:g} s") from None
