"""The steps, in the order in which they run."""

from __future__ import annotations

from arm64_check import build
from arm64_check.steps import Step

STEPS = [
    Step("module", "build the extension module with the board's flags", build.module),
]
