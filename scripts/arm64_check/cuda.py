"""The step that builds the extension with CUDA for the board.

No GPU is emulated: what is shown is that it is complete and loads, says what it lacks, and works on
the CPU. What its kernels compute is for tests/gpu, on a GPU.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from arm64_check.device_code import ARCHITECTURE, check
from arm64_check.glibc import glibc
from arm64_check.steps import WORK, CheckFailed, Emulated, Found, run_program
from arm64_check.toolkit import ensure_toolkit
from checking.checkout import BUILD_INFO, ROOT
from orin_llm.models.names import DEFAULT_MODEL
from orin_llm.upstream import cache_dir

BUILT_FOR = f"{ARCHITECTURE.removeprefix('sm_')}-real"
_TOKENS = 2  # some seconds each
_SAID_WITHOUT_A_DRIVER = "this build needs NVIDIA's driver, which is not found"


def cuda(machine: Emulated) -> Found:
    """The first build takes an hour of a processor's time; ccache keeps what it made."""
    toolkit = ensure_toolkit(cache_dir() / "arm64")
    module = build(machine, toolkit, WORK / "cuda")
    return {
        **check(module, toolkit, f"{machine.tools}readelf"),
        **glibc(replace(machine, module=module)),
        **use(machine, toolkit, WORK / "cuda"),
    }


def build(machine: Emulated, toolkit: Path, folder: Path) -> Path:
    """A copy of the package in `folder`, with the extension that has CUDA; gives the latter."""
    package = folder / "orin_llm"
    shutil.rmtree(folder, ignore_errors=True)
    left_out = shutil.ignore_patterns("_native.*.so", "__pycache__")
    shutil.copytree(ROOT / "orin_llm", package, ignore=left_out)
    module = package / machine.module.name
    machine.run(
        ["-m", "arm64_check.cuda_child", str(module)],
        env={**machine.building, **with_toolkit(toolkit, machine.tools)},
    )
    return module


def with_toolkit(toolkit: Path, tools: str) -> dict[str, str]:
    """Variables for a build with it."""
    return {
        "ORIN_LLM_CUDA": "on",
        "ORIN_LLM_CUDA_ARCH": BUILT_FOR,
        "CUDA_HOME": str(toolkit),
        "CUDAHOSTCXX": f"{tools}g++",
    }


def use(machine: Emulated, toolkit: Path, folder: Path) -> Found:
    """What the program in `folder` says and does, without a driver and with one that has no GPU.

    Raises:
        CheckFailed: it is not what a user there has to be told.
    """
    program = ("-m", "orin_llm.cli")
    nowhere = {"PYTHONPATH": str(folder), "LD_LIBRARY_PATH": ""}
    here = {**nowhere, "LD_LIBRARY_PATH": str(stub_driver(toolkit, folder / "driver"))}
    told = machine.run([*program, "run", "-p", "hi"], env=nowhere, cwd=folder, check=False)
    if told.returncode != 4 or _SAID_WITHOUT_A_DRIVER not in told.stderr:
        raise CheckFailed(
            f"without a driver: expected exit status 4 and {_SAID_WITHOUT_A_DRIVER!r}, found"
            f" {told.returncode} and {told.stderr.strip()!r}"
        )
    facts = json.loads(machine.run(["-c", BUILD_INFO], env=here, cwd=folder).stdout)
    if not facts["cuda"] or facts["cuda_architectures"] != BUILT_FOR:
        raise CheckFailed(f"expected a build with CUDA for {BUILT_FOR}, found {facts}")
    report = machine.run([*program, "doctor", "--json"], env=here, cwd=folder, check=False)
    doctor = require_no_gpu(report.stdout)
    run_program([sys.executable, *program, "models", "pull", DEFAULT_MODEL])
    asked = ("run", "-m", DEFAULT_MODEL, "-p", "Why?", "-n", str(_TOKENS), "--temp", "0", "--json")
    answer = json.loads(machine.run([*program, *asked], env=here, cwd=folder).stdout)
    if answer["completion_tokens"] != _TOKENS:
        raise CheckFailed(f"expected {_TOKENS} tokens of an answer: {answer['text']!r}")
    return {"cuda": facts["cuda_version"], "doctor": doctor, "answer": answer["text"]}


def stub_driver(toolkit: Path, folder: Path) -> Path:
    """What stands for the driver: CUDA's library to link with, each call of which is an error."""
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to(toolkit / "lib64/stubs/libcuda.so")
    return folder


def require_no_gpu(report: str) -> list[str]:
    """What doctor says of the GPU and of CUDA, in a report of a machine that has neither.

    Raises:
        CheckFailed: the build is of no use there, or a GPU is claimed.
    """
    checks = json.loads(report)["checks"]
    if missing := [one["found"] for one in checks if one["level"] == "missing"]:
        raise CheckFailed(f"orin-llm doctor says: {'; '.join(missing)}")
    told = [one for one in checks if one["check"] in ("GPU", "CUDA driver")]
    if [one["check"] for one in told if one["level"] == "warning"] != ["GPU", "CUDA driver"]:
        raise CheckFailed(f"expected warnings of GPU and CUDA driver, orin-llm doctor says {told}")
    return [one["found"] for one in told]
