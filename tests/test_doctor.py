"""doctor's checks of the build and the GPU, and what the build says about itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_support import CPU, CPU_ONLY, CUDA, GOOD, ORIN, PC, only, spoilt
from processes import environment, python, run

from orin_llm.device.architectures import runs_on
from orin_llm.device.build import Build, build_info
from orin_llm.device.gpu import Gpu, Gpus
from orin_llm.doctor.build import is_loadable
from orin_llm.doctor.catalogue import CHECKS, check
from orin_llm.doctor.finding import LEVELS, Finding, exit_code, worst_first
from orin_llm.host.cpu import Cpu

H200 = Gpu("NVIDIA H200", "9.0", integrated=False)


def test_a_board_and_a_pc_in_order_are_ok_in_all() -> None:
    assert spoilt(GOOD) == spoilt(PC) == []
    assert len(check(GOOD)) == len(CHECKS)  # none is left out on a board
    assert [finding.check for finding in check(PC)] == ["build", "memory", "model", "disk"]


def test_every_check_has_a_name_of_its_own() -> None:
    names = [finding.check for finding in check(GOOD)]
    assert len(names) == len(set(names))


def test_the_exit_code_is_that_of_the_worst() -> None:
    findings = [Finding("x", level, "") for level in reversed(LEVELS)]
    assert [finding.level for finding in worst_first(findings)] == list(LEVELS)
    assert [exit_code(findings[:count]) for count in range(7)] == [0, 0, 0, 0, 0, 1, 4]


def test_a_gpu_that_a_cpu_only_build_leaves_idle_hurts_with_the_reason() -> None:
    finding = only(build=CPU_ONLY)
    assert (finding.check, finding.level) == ("GPU", "hurts")
    assert "Orin GPU is not used" in finding.found
    assert "nvcc was not found on PATH" in finding.found
    assert "ORIN_LLM_CUDA=on" in finding.fix and "nvcc is at" not in finding.fix


def test_a_compiler_that_was_not_on_path_is_named_with_its_place() -> None:
    nvcc = "/usr/local/cuda/bin/nvcc"
    assert f"nvcc is at {nvcc}" in only(build=CPU_ONLY, system={"nvcc": nvcc}).fix


def test_a_cuda_build_without_a_gpu_says_that_the_cpu_is_used() -> None:
    finding = only(PC, build=CUDA)
    assert finding.level == "warning" and "the CPU is used" in finding.found


def test_the_reason_why_a_gpu_is_out_of_reach_is_passed_on_and_hurts_a_board() -> None:
    assert only(PC, gpus=Gpus((), "no driver")) == Finding("GPU", "warning", "no driver")
    assert only(gpus=Gpus((), "no nvmap")) == Finding("GPU", "hurts", "no nvmap")


def test_a_gpu_that_the_build_has_no_code_for_is_named_with_the_remedy() -> None:
    code, binary = spoilt(PC, build=CUDA, gpus=Gpus((H200,)), binary_code=("sm_87",))
    assert (code.check, binary.check) == ("CUDA code", "binary code")
    assert code.level == binary.level == "hurts"
    assert "ORIN_LLM_CUDA_ARCH=90-real" in code.fix and "sm_87" in binary.found
    assert binary.expected == "sm_90"


def test_a_module_without_the_code_that_the_build_claims_hurts() -> None:
    finding = only(binary_code=())
    assert (finding.check, finding.level) == ("binary code", "hurts")
    assert "no code for a GPU" in finding.found and finding.expected == "sm_87"


def test_code_that_the_driver_has_to_compile_first_is_a_warning() -> None:
    build = replace(CUDA, cuda_architectures="80")
    finding = only(PC, build=build, gpus=Gpus((H200,)), binary_code=("sm_80",))
    assert (finding.check, finding.level) == ("binary code", "warning")
    assert "compiles for the NVIDIA H200" in finding.found


def test_code_of_the_same_major_version_runs_on_a_newer_minor_one_but_not_on_a_board() -> None:
    card = Gpu("NVIDIA L4", "8.9", integrated=False)
    build = replace(CUDA, cuda_architectures="80-real")
    assert spoilt(PC, build=build, gpus=Gpus((card,)), binary_code=("sm_80", "sm_90")) == []
    code, binary = spoilt(build=build, binary_code=("sm_80",))
    assert code.level == binary.level == "hurts" and binary.expected == "sm_87"


def test_code_that_was_not_listed_is_unknown_with_the_tool_that_lists_it() -> None:
    finding = only(binary_code=None)
    assert finding.level == "unknown" and "cuobjdump" in finding.fix


def test_a_gpu_that_does_not_tell_its_capability_is_unknown() -> None:
    finding = only(gpus=Gpus((replace(ORIN, compute_capability=""),)))
    assert (finding.check, finding.level) == ("CUDA code", "unknown")


def test_instructions_that_the_processor_lacks_make_the_build_unusable() -> None:
    build = Build(version="0.1.0", native=True, cpu_flags=("neon", "sve", "i8mm"), why="")
    finding = only(PC, build=build)
    assert finding.level == "missing"
    assert "sve, i8mm" in finding.found and "ORIN_LLM_NATIVE=off" in finding.fix
    assert not is_loadable(build, CPU) and is_loadable(CPU_ONLY, CPU)


def test_a_processor_that_does_not_tell_what_it_has_is_unknown() -> None:
    cpu = replace(CPU, features=())
    finding = only(cpu=cpu, build=replace(CUDA, cpu_flags=("neon",)))
    assert (finding.check, finding.level) == ("build", "unknown")
    assert is_loadable(CPU_ONLY, cpu)


def test_a_module_that_does_not_load_is_missing_and_nothing_else_is_guessed() -> None:
    build = Build(problem="it does not load")
    assert only(build=build) == Finding("build", "missing", "it does not load")
    assert only(build=build).found == "it does not load"
    assert not is_loadable(build, CPU)


def test_a_portable_build_is_a_note() -> None:
    finding = only(build=replace(CUDA, native=False))
    assert finding.level == "note" and "portable" in finding.found
    assert finding.found == "built for a portable baseline"
    assert finding.fix == "build without ORIN_LLM_NATIVE=off"


def test_a_container_with_less_time_than_cores_is_no_finding_since_it_gets_fewer_threads() -> None:
    assert spoilt(PC, cpu=Cpu("x", "y", 8, 8, 2.0, ("neon", "dotprod"))) == []


@pytest.mark.parametrize(
    ("architectures", "capability", "runs"),
    [
        ("87-real", "8.7", True),
        ("87", "8.7", True),
        ("80-real", "8.7", True),
        ("87-real", "8.6", False),
        ("87-real", "9.0", False),
        ("87", "9.0", True),
        ("80-virtual;87-real", "9.0", True),
        ("90a", "9.0", True),
        ("90a", "10.0", False),
        ("120-real", "8.7", False),
        ("100f", "10.3", True),
        ("100f-real", "10.0", True),
        ("103f", "10.0", False),
        ("100f", "11.0", False),
        ("native", "8.7", True),
        ("", "8.7", False),
    ],
)
def test_which_architectures_run_on_which_gpu(
    architectures: str, capability: str, runs: bool
) -> None:
    assert runs_on(architectures, capability) is runs


@pytest.mark.parametrize(
    ("architectures", "runs"),
    [
        ("87-real", True),
        ("87", True),
        ("80-real;86-real", False),  # of cards: nothing is promised for a Tegra
        ("80", True),  # the driver compiles it
        ("90-virtual", False),
    ],
)
def test_an_integrated_gpu_runs_binary_code_of_exactly_its_own(
    architectures: str, runs: bool
) -> None:
    assert runs_on(architectures, "8.7", integrated=True) is runs


def test_the_build_speaks_for_itself_from_anywhere(tmp_path: Path) -> None:
    from orin_llm import _native

    probe = (
        "import json; from orin_llm.device.build import build_info;"
        "print(json.dumps(build_info().to_json()))"
    )
    package = Path(__file__).parents[1]
    done = run(python(probe), cwd=tmp_path, env=environment(PYTHONPATH=str(package)))
    told = json.loads(done.stdout)
    assert told["problem"] == ""
    for key, value in _native.build_info().items():
        assert told[key] == value


def python_that(tmp_path: Path, *commands: str) -> str:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\n" + "\n".join(commands) + "\n")
    script.chmod(0o755)
    return str(script)


def test_a_module_that_dies_of_an_illegal_instruction_is_diagnosed(tmp_path: Path) -> None:
    told = build_info(python_that(tmp_path, "kill -ILL $$"))
    assert "ORIN_LLM_NATIVE=off" in told.problem


def test_a_module_that_cannot_be_imported_is_quoted(tmp_path: Path) -> None:
    fails = python_that(tmp_path, "echo 'ImportError: libcublas.so.12' >&2", "exit 1")
    told = build_info(fails)
    assert "libcublas.so.12" in told.problem and "scripts/build.sh" in told.problem
