"""The step that builds the extension module for the board's processor."""

from __future__ import annotations

import json

from arm64_check.steps import CheckFailed, Emulated, Found
from checking.checkout import BUILD_INFO

FEATURES = ["neon", "dotprod", "fp16"]  # of the Cortex-A78AE, and no more of ours


def module(machine: Emulated) -> Found:
    """The product's own build, by the emulated Python."""
    machine.run(["-m", "native.module"], env=machine.building)
    facts = json.loads(machine.run(["-c", BUILD_INFO]).stdout)
    if facts["cpu_flags"] != FEATURES:
        raise CheckFailed(
            f"the module is for a processor with {', '.join(facts['cpu_flags'])}; the board has"
            f" {', '.join(FEATURES)}: see PORTABLE_FLAGS in scripts/native/toolchain.py"
        )
    return {"compiler": facts["compiler"], "features": facts["cpu_flags"]}
