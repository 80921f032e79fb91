"""The step of `scripts/arm64_check.sh` that counts instructions, with counts that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from arm64_check import instructions as step
from arm64_check.steps import CheckFailed, Emulated

PRODUCTS = step.N_HEAD * 4096 * step.HEAD_DIM // 16  # of a decode token


def machine(folder: Path, emulator: tuple[str, ...] = ("qemu",)) -> Emulated:
    return Emulated(folder, folder / "python3", emulator, folder / "module.so", "", {})


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Where each turn's instructions go; the emulator finds them."""
    counts: list[int] = []

    def run(self: Emulated, arguments: list[str], **options: dict[str, str]) -> None:
        marks, now = [], 1000
        for n in counts:
            marks += [now, now + n]
            now += n + 77  # between the marks of two turns
        Path(options["env"]["QEMU_PLUGIN"].partition(",out=")[2]).write_text(
            "".join(f"{mark}\n" for mark in marks)
        )

    monkeypatch.setattr(step, "WORK", tmp_path / "work")
    monkeypatch.setattr(step, "_build_plugin", lambda: Path("plugin.so"))
    monkeypatch.setattr(Emulated, "run", run)
    return counts


def test_what_lies_between_two_marks_is_a_turns(count: list[int], tmp_path: Path) -> None:
    count += [20 * PRODUCTS, 30 * PRODUCTS] * 8
    found = step.instructions(machine(tmp_path))
    assert len(found) == 8
    assert found["decode q8_0"] == "20.0 : 30.0 = 0.67"


def test_more_instructions_than_llama_cpp_are_a_failure(count: list[int], tmp_path: Path) -> None:
    count += [20 * PRODUCTS, 30 * PRODUCTS] * 3 + [31 * PRODUCTS, 30 * PRODUCTS] * 5
    with pytest.raises(CheckFailed, match=r"decode q4_0 31\.0 : 30\.0") as failure:
        step.instructions(machine(tmp_path))
    assert "decode q8_0" not in str(failure.value)


def test_marks_that_are_missing_are_a_failure(count: list[int], tmp_path: Path) -> None:
    count += [1, 2, 3]
    with pytest.raises(CheckFailed, match="32 marks expected .* 6 found"):
        step.instructions(machine(tmp_path))
