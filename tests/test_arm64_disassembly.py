"""Machine code for Arm is read as it is: its loops, what they are made of, what no A78AE has.

The texts are of small functions of our own, by GCC 12 and objdump: `y += a · x` with and without
vector code, and a loop in a loop with a call in code out of the way.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from arm64_check.disassembly import check, foreign, hold
from arm64_check.hot_loops import SAMPLING, HotLoop
from arm64_check.machine_code import Function, functions
from arm64_check.steps import CheckFailed
from checking.checkout import ROOT
from native.toolchain import PORTABLE_FLAGS

TEXTS = Path(__file__).parent / "arm64_disassembly"
TOOLS = "aarch64-linux-gnu-"
AXPY = HotLoop("^axpy$", has=(r"fmla v\d+\.4s",), nowhere=(r"fmadd s",))

needs_compiler = pytest.mark.skipif(
    shutil.which(f"{TOOLS}g++") is None, reason="no cross compiler for aarch64 here"
)


def function_in(name: str) -> Function:
    (function,) = functions((TEXTS / name).read_text().splitlines())
    return function


def made_up(*code: str, name: str = "made_up") -> Function:
    """Instructions from address 0 on."""
    lines = [f"  {4 * i:x}:\t{each}" for i, each in enumerate(code)]
    (function,) = functions([f"0000000000000000 <{name}>:", *lines])
    return function


def spans(function: Function) -> list[tuple[int, int]]:
    return [(loop[0].address, loop[-1].address) for loop in function.innermost_loops]


def test_a_loop_goes_from_where_a_branch_back_leads_to_the_branch() -> None:
    assert spans(function_in("axpy_vector.txt")) == [(0x28, 0x40)]
    assert spans(function_in("axpy_scalar.txt")) == [(0x10, 0x28)]


def test_of_nested_loops_the_inner_one_counts_and_code_that_jumps_back_is_none() -> None:
    assert spans(function_in("nest.txt")) == [(0x50, 0x64)]


def test_a_loop_that_is_entered_at_its_end_is_one() -> None:
    function = made_up(
        "mov\tx0, #0x0", "b\tc <f+0xc>", "add\tx0, x0, #0x1", "ldr\tx1, [x2, x0]", "cbnz\tx1, 8 <f>"
    )
    assert spans(function) == [(0x8, 0x10)]


def test_a_call_backwards_is_no_loop() -> None:
    assert spans(made_up("nop", "bl\t0 <made_up>", "ret")) == []


def test_vector_code_holds_and_a_scalar_loop_is_named_with_its_lines() -> None:
    assert hold([function_in("axpy_vector.txt")], [AXPY]) == []
    wanted = HotLoop("^axpy$", has=AXPY.has)
    for rule, why in ((AXPY, "a loop has `fmadd s`"), (wanted, "expected a loop with fmla")):
        (problem,) = hold([function_in("axpy_scalar.txt")], [rule])
        assert problem.startswith(f"axpy: {why}")
        assert "a loop of 7 instructions at 10:" in problem
        assert "18: fmadd s1, s2, s0, s1" in problem


def test_what_is_beside_the_loop_is_not_taken_for_it() -> None:
    code = ["fmla\tv0.4s, v1.4s, v2.4s", "sub\tx0, x0, #0x1", "cbnz\tx0, 4 <f>", "ret"]
    assert hold([made_up(*code)], [HotLoop("made_up", has=(r"fmla v\d+\.4s",))])
    assert not hold([made_up(*code)], [HotLoop("made_up", somewhere=(r"fmla v\d+\.4s",))])
    assert hold([made_up(*code)], [HotLoop("made_up", somewhere=(r"sdot",))])


@pytest.mark.parametrize("more", ["bl\t400 <g>", "blr\tx3", "fadd\ts0, s0, s1", "fcvt\td0, s0"])
def test_a_loop_with_a_call_or_scalar_floats_does_not_pass(more: str) -> None:
    code = ["fmla\tv0.4s, v1.4s, v2.4s", more, "cbnz\tx0, 0 <f>", "ret"]
    passes = more.startswith("fcvt")  # as of a block's scale
    assert (hold([made_up(*code)], [HotLoop("made_up", has=AXPY.has)]) == []) == passes


def test_a_rule_for_no_function_says_what_to_do() -> None:
    (problem,) = hold([function_in("nest.txt")], [AXPY])
    assert "no function is named as ^axpy$" in problem and "hot_loops.py" in problem


@needs_compiler
def test_an_instruction_that_the_processor_lacks_is_named() -> None:
    code = ["sdot\tv0.4s, v1.16b, v2.4b[1]", "fadd\tv0.8h, v1.8h, v2.8h", "cbnz\tx0, 0 <f>", "ret"]
    assert foreign([made_up(*code)], f"{TOOLS}as") == []
    for lacking in ("smmla\tv0.4s, v1.16b, v2.16b", "fmlal\tv0.4s, v1.4h, v2.4h",
                    "bfdot\tv0.4s, v1.8h, v2.8h", "add\tz0.s, z1.s, z2.s"):  # fmt: skip
        (problem,) = foreign([made_up("nop", lacking, *code)], f"{TOOLS}as")
        assert problem.startswith("made_up at 4: ")
        assert lacking.replace("\t", " ") in problem


@needs_compiler
@pytest.mark.parametrize("comment", ["", " ; undefined"])
def test_a_word_that_the_disassembler_cannot_read_is_named(comment: str) -> None:
    code = ["nop", f".inst\t0xc1a00000{comment}", "ret"]
    (problem,) = foreign([made_up(*code)], f"{TOOLS}as")
    assert problem.startswith("made_up at 4: the processor does not have `.inst 0xc1a00000")
    assert problem.endswith("(objdump does not know it)")


@needs_compiler
def test_the_filters_of_sampling_are_vector_code_as_they_are_built(tmp_path: Path) -> None:
    rules = [rule for rule in SAMPLING if "Selection" in rule.function]
    found = check(_compiled(tmp_path), TOOLS, rules)
    assert found["rules"] == len(rules) >= 6
    with pytest.raises(CheckFailed) as failure:
        check(_compiled(tmp_path, "-fno-tree-vectorize", "-fno-tree-slp-vectorize"), TOOLS, rules)
    for function in ("select", "weigh"):
        assert f"Selection::{function}(" in str(failure.value)
    assert "fdiv s" in str(failure.value)


def _compiled(folder: Path, *flags: str) -> Path:
    """cpp/sampling/selection.cpp with the flags of CMakeLists.txt."""
    built = folder / "selection.o"
    ours = "-std=c++17 -O3 -fPIC -fvisibility=hidden"
    rule = "-ffp-contract=off -fno-math-errno -fno-trapping-math"
    options = [*ours.split(), *PORTABLE_FLAGS["aarch64"], *rule.split(), *flags]
    source = str(ROOT / "cpp/sampling/selection.cpp")
    subprocess.run([f"{TOOLS}g++", *options, "-c", source, "-o", str(built)], check=True)
    return built
