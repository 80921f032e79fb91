"""doctor: what was built, what it says about it, and when it says that something is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from processes import environment, python, run
from typer.testing import CliRunner

from orin_llm.cli.doctor import build_line, lines
from orin_llm.cli.main import app
from orin_llm.device.build import Build, build_info
from orin_llm.device.checkup import Finding, check, runs_on
from orin_llm.device.gpu import Gpu, Gpus
from orin_llm.host.cpu import Cpu
from orin_llm.host.memory import Memory
from orin_llm.models.store import Store

CPU = Cpu("Cortex-A78AE", "aarch64", 12, 12, None, ("neon", "dotprod", "fp16"))
MEMORY = Memory(64 << 30, 48 << 30, 0, 0, None, limited=False)
ORIN = Gpu("Orin GPU", "8.7", integrated=True)
CPU_ONLY = Build(
    version="0.1.0", native=True, cpu_flags=("neon", "dotprod"), why="nvcc was not found on PATH"
)
CUDA = Build(
    version="0.1.0", native=True, cuda=True, cuda_architectures="87-real", cuda_version="12.6",
    why="nvcc 12.6 in /usr/local/cuda",
)  # fmt: skip


def found(build: Build, *gpus: Gpu, problem: str = "", cpu: Cpu = CPU) -> list[Finding]:
    return check(build, cpu, Gpus(gpus, problem), MEMORY)


def test_all_well_means_nothing_to_say() -> None:
    assert found(CUDA, ORIN) == []
    assert found(CPU_ONLY) == []


def test_a_gpu_that_a_cpu_only_build_leaves_idle_is_a_warning_with_the_reason() -> None:
    (finding,) = found(CPU_ONLY, ORIN)
    assert finding.level == "warning"
    assert "Orin GPU is not used" in finding.text and "nvcc was not found on PATH" in finding.text
    assert "ORIN_LLM_CUDA=on" in finding.text


def test_a_cuda_build_without_a_gpu_says_that_the_cpu_is_used() -> None:
    (finding,) = found(CUDA)
    assert finding.level == "warning" and "the CPU is used" in finding.text


def test_the_reason_why_a_gpu_is_out_of_reach_is_passed_on() -> None:
    assert [f.text for f in found(CUDA, problem="no driver")] == ["no driver"]


def test_a_gpu_that_the_build_has_no_code_for_is_named_with_the_remedy() -> None:
    (finding,) = found(CUDA, Gpu("NVIDIA H200", "9.0", integrated=False))
    assert "ORIN_LLM_CUDA_ARCH=90-real" in finding.text


def test_instructions_that_the_processor_lacks_make_the_build_unusable() -> None:
    build = Build(version="0.1.0", native=True, cpu_flags=("neon", "sve", "i8mm"), why="")
    (finding,) = found(build)
    assert finding.level == "missing"
    assert "sve, i8mm" in finding.text and "ORIN_LLM_NATIVE=off" in finding.text


def test_a_module_that_does_not_load_is_missing_and_nothing_else_is_guessed() -> None:
    assert found(Build(problem="it does not load"), ORIN) == [
        Finding("missing", "it does not load")
    ]


def test_a_portable_build_is_a_note() -> None:
    (finding,) = found(Build(version="0.1.0", native=False, why="x"))
    assert finding.level == "note" and "portable" in finding.text


def test_a_container_with_less_time_than_cores_is_no_finding_since_it_gets_fewer_threads() -> None:
    assert found(CPU_ONLY, cpu=Cpu("x", "y", 8, 8, 2.0, ("neon", "dotprod"))) == []


def test_little_memory_is_a_warning() -> None:
    little = Memory(1 << 30, 100 << 20, 0, 0, None, limited=False)
    (finding,) = check(CPU_ONLY, CPU, Gpus(()), little)
    assert "only 104.9 MB" in finding.text


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
        ("native", "8.7", True),
        ("", "8.7", False),
    ],
)
def test_which_architectures_run_on_which_gpu(
    architectures: str, capability: str, runs: bool
) -> None:
    assert runs_on(architectures, capability) is runs


def test_the_build_line_says_cpu_only_and_why() -> None:
    assert build_line(CPU_ONLY).startswith("CPU only, because nvcc was not found on PATH")
    assert "CUDA 12.6 (architectures 87-real)" in build_line(CUDA)
    assert "nvcc 12.6 in /usr/local/cuda" in build_line(CUDA)


def test_the_report_has_a_line_for_each_part(tmp_path: Path) -> None:
    report = dict(lines(CUDA, CPU, Gpus((ORIN,)), MEMORY, Store(tmp_path)))
    assert "12 cores: neon dotprod fp16" in report["processor"]
    assert report["GPU"] == "Orin GPU, compute capability 8.7, shares the machine's memory"
    assert report["memory"] == "51.54 GB available of 68.72 GB"
    assert "orin-llm models pull smollm2" in report["models"]


def test_doctor_finds_this_machine_usable() -> None:
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.stdout
    text = {line.split(maxsplit=1)[0]: line for line in done.stdout.splitlines()}
    assert {"orin-llm", "build", "llama.cpp", "processor", "GPU", "memory", "models"} <= set(text)
    assert build_info().why in text["build"]


def test_doctor_as_json_is_one_object() -> None:
    done = CliRunner().invoke(app, ["doctor", "--json"])
    report = json.loads(done.stdout)
    assert report["usable"] is True
    assert report["build"]["why"] == build_info().why
    assert report["memory"]["available_bytes"] > 0 and report["cpu"]["physical_cores"] >= 1


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


def test_doctor_ends_with_4_when_the_module_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = build_info(python_that(tmp_path, "exit 1"))
    monkeypatch.setattr("orin_llm.device.build.build_info", lambda: broken)
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 4
    assert "missing: the extension module does not load" in done.stdout
