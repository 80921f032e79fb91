"""The step that builds unpatched llama-cpp-python for Arm, which an engine without hooks and one
with RoPE tables equal."""

from __future__ import annotations

from arm64_check.steps import CheckFailed, Emulated, Found

# One text of 64 tokens: logits of each place to the last bit.
TESTS = [
    f"tests/test_engine_stock.py::{name}_bit_for_bit[0]"
    for name in ("test_hooks_off_is_stock", "test_rope_tables_are_stock")
]


def stock(machine: Emulated) -> Found:
    """The peer stays in the emulated Python's environment, where the tests of `parity` find it."""
    machine.run(["-m", "native.stock"], env=machine.building)
    done = machine.run(["-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS])
    said = done.stdout.strip().splitlines()[-1]
    if not said.startswith(f"{len(TESTS)} passed"):
        raise CheckFailed(f"expected that {' and '.join(TESTS)} pass: {said}")
    return {"tests": [test.partition("::")[2] for test in TESTS]}
