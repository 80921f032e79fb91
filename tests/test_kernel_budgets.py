"""Kernels compiled for every architecture: the compiler's report is read, and held to a budget."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from check_kernels import (
    ARCHITECTURES,
    BUDGETS_NVCC,
    ROOT,
    Budget,
    Use,
    compile_all,
    excesses,
    judge,
    read_budgets,
    read_report,
    table,
)
from native.errors import BuildError

REPORT = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN4orin4cuda41_GLOBAL__N__fe775df5_9_affine_cu_4f8e687c5scaleIfLi4EEEvT_' for 'sm_87'
ptxas info    : Function properties for it
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 384 bytes cmem[0]
ptxas info    : Compiling entry function '_Z5plainPf' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""  # noqa: E501

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def test_the_report_of_the_compiler_is_read_by_kernel() -> None:
    assert list(read_report(REPORT)) == [Use("scale", "87", 255, 32), Use("plain", "90", 8, 0)]


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (Use("scale", "87", 32, 0), ""),
        (Use("scale", "87", 32, 4), "spills 4 bytes"),
        (Use("other", "87", 8, 0), "has no budget"),
    ],
)
def test_what_is_over_its_budget_or_has_none_is_named(use: Use, said: str) -> None:
    found = [line for line in excesses([use], {"scale": Budget(32)}) if "of no kernel" not in line]
    assert len(found) == bool(said) and said in "".join(found)


@pytest.mark.parametrize(
    ("version", "use", "said", "good"),
    [
        (BUDGETS_NVCC, Use("scale", "87", 32, 0), "", True),
        (BUDGETS_NVCC, Use("scale", "87", 33, 0), "33 registers", False),
        ("12.4", Use("scale", "87", 33, 0), "33 registers", True),
        ("12.4", Use("scale", "87", 32, 4), "spills 4 bytes", False),
        ("12.4", Use("scale", "87", 32, 0), f"are those of {BUDGETS_NVCC}", True),
    ],
)
def test_registers_are_held_to_the_nvcc_that_they_are_of_and_spills_to_any(
    version: str, use: Use, said: str, good: bool
) -> None:
    told, passed = judge([use], {"scale": Budget(32)}, version)
    assert passed is good and said in "\n".join(told) and bool(told) == bool(said)


def test_a_budget_of_a_kernel_that_is_gone_is_named() -> None:
    assert list(excesses([], {"gone": Budget(1)})) == ["[gone] is a budget of no kernel"]


def test_the_table_has_the_most_that_any_instance_uses() -> None:
    uses = [Use("scale", name, n, 0) for name in ARCHITECTURES for n in (8, 32, 16)]
    assert list(table(uses))[2:] == ["| scale | 32 | 32 | 32 |"]


def test_the_documentation_has_a_line_for_every_kernel() -> None:
    lines = (ROOT / "docs/kernels.md").read_text().splitlines()
    named = {line.split("|")[1].strip() for line in lines if line.startswith("| ")}
    assert {name for name in named if name.endswith("_kernel")} == set(
        read_budgets(ROOT / "cuda/budgets.toml")
    )


def compiled(folder: Path, text: str) -> list[Use]:
    source = folder / "it.cu"
    source.write_text(text)
    return compile_all("nvcc", [source], folder)


@needs_nvcc
def test_a_kernel_is_compiled_for_every_architecture(tmp_path: Path) -> None:
    uses = compiled(tmp_path, "__global__ void set(int * x) { *x = 1; }")
    assert [(use.kernel, use.architecture) for use in uses] == [
        ("set", architecture) for architecture in ARCHITECTURES
    ]


@needs_nvcc
def test_a_warning_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"it\.cu for sm_80.*never referenced"):
        compiled(tmp_path, "__global__ void set(int * x) { int unused; *x = 1; }")


@needs_nvcc
def test_spilled_registers_are_seen(tmp_path: Path) -> None:
    uses = compiled(
        tmp_path,
        "__global__ void __launch_bounds__(1024, 1) set(float * x) {"
        " float v[128]; for (int i = 0; i < 128; i++) v[i] = x[i * 1024 + threadIdx.x];"
        " __syncthreads();"
        " for (int i = 0; i < 128; i++) x[i * 1024 + threadIdx.x] = v[i] * v[i * 7 % 128]; }",
    )
    assert all(use.spilled_bytes > 0 for use in uses)


def test_every_budget_is_of_a_kernel_of_the_product() -> None:
    text = "".join(path.read_text() for path in (ROOT / "cuda").glob("*.cu*"))
    for name in read_budgets(ROOT / "cuda/budgets.toml"):
        assert f" {name}(" in text
