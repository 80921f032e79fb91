"""The step that builds unpatched llama-cpp-python for Arm: without hooks an engine is as it is."""

from __future__ import annotations

from arm64_check.steps import CheckFailed, Emulated, Found

# One text of 64 tokens: logits of each place to the last bit.
TEST = "tests/test_engine_stock.py::test_hooks_off_is_stock_bit_for_bit[0]"


def stock(machine: Emulated) -> Found:
    """The peer stays in the emulated Python's environment, where the tests of `parity` find it."""
    machine.run(["-m", "native.stock"], env=machine.building)
    done = machine.run(["-m", "pytest", "-q", "-p", "no:cacheprovider", TEST])
    said = done.stdout.strip().splitlines()[-1]
    if "1 passed" not in said:
        raise CheckFailed(f"expected that {TEST} passes: {said}")
    return {"test": TEST.partition("::")[2]}
