"""The steps, in the order in which they run."""

from __future__ import annotations

from arm64_check.build import module
from arm64_check.core import core
from arm64_check.steps import Step
from arm64_check.wheel import wheel

STEPS = [
    Step("module", "build the extension module with the board's flags", module),
    Step("core", "run the C++ programs of tests/core", core, needs_module=False),
    Step("wheel", "build a wheel, install it and have it answer", wheel),
]
