"""What is needed before anything can be checked, and what the machine is."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import shutil
import sys
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from checking.checkout import commit_of_checkout, python
from checking.steps import Found, StepFailed
from gpu_check.steps import Context
from native.cuda import plan_cuda
from native.errors import BuildError
from native.toolkits import find_nvcc, nvcc_version
from orin_llm.errors import DeviceUnavailable
from orin_llm.host.cpu import read_cpu
from orin_llm.host.memory import read_memory
from orin_llm.host.programs import ask
from orin_llm.upstream.folder import source_folder

# What pip would fetch otherwise: a machine without a network must have it.
PACKAGES = ["gguf", "hypothesis", "jinja2", "numpy", "pybind11", "pytest", "rich", "typer"]
if sys.version_info < (3, 11):
    PACKAGES.append("tomli")
_BUILD_TOOLS = ("cmake", "ninja")  # as packages or as programs
_QUERY = (
    "name", "uuid", "compute_cap", "driver_version", "memory.total", "clocks.max.sm",
    "clocks.max.memory", "clocks.current.sm", "clocks.current.memory", "power.limit",
    "persistence_mode", "utilization.gpu",
)  # fmt: skip
TOOLS = ("compute-sanitizer", "nvidia-cuda-mps-control", "nvcc")
_TIMEOUT_S = 60
_DRIVER_FOLDER = "/usr/local/nvidia/bin"  # where some containers put the driver's programs


def set_environment() -> None:
    """For all that is started: CUDA's folders on PATH, and an absolute source folder."""
    if folder := source_folder():
        os.environ["ORIN_LLM_SOURCE"] = str(folder)
    folders = os.environ.get("PATH", "").split(os.pathsep)
    with suppress(BuildError):
        folders.append(str(Path(find_nvcc()).parent))
    os.environ["PATH"] = os.pathsep.join([*folders, _DRIVER_FOLDER])


def require_gpu() -> dict[str, str]:
    """What the first GPU is: the words of nvidia-smi, or CUDA's where that knows none.

    Raises:
        DeviceUnavailable: there is no GPU, no nvcc, no cuBLAS, or a Python package is missing; the
            message names all that is.
    """
    gpu, problem = query_gpu() or _ask_cuda(), _cuda_problem()
    missing = [] if gpu else ["no NVIDIA GPU is found (nvidia-smi, CUDA's driver)"]
    if problem and (gpu or "GPU is visible" not in problem):  # which is said already
        missing.append(problem)
    missing += missing_packages()
    if missing:
        raise DeviceUnavailable(
            "this machine cannot be checked:\n  "
            + "\n  ".join(missing)
            + "\nA rehearsal without a GPU: scripts/gpu_check.sh --device cpu"
        )
    return gpu


def _cuda_problem() -> str:
    """Why a build with CUDA cannot be made, or ""."""
    os.environ["ORIN_LLM_CUDA"] = "auto"  # also for what is started: a check without it is none
    try:
        plan = plan_cuda()
    except BuildError as problem:  # a wrong setting, or a board whose CUDA is not whole
        return str(problem)
    return "" if plan.enabled else plan.why


def missing_packages() -> list[str]:
    """A line that names the Python packages that are not there, or none."""
    needed = [*PACKAGES, *(name for name in _BUILD_TOOLS if shutil.which(name) is None)]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if not missing:
        return []
    names = " ".join(missing)
    return [
        f"Python packages are missing ({names}): scripts/build.sh test,lint installs them where"
        " there is a network; without one, they have to be there before"
    ]


def query_gpu() -> dict[str, str]:
    """nvidia-smi's words for what it knows of the first GPU; empty where there is none."""
    if shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader"]
    try:
        done = ask(command, _TIMEOUT_S)
    except OSError:
        return {}
    rows = list(csv.reader(done.stdout.splitlines(), skipinitialspace=True))
    if done.returncode != 0 or not rows or len(rows[0]) != len(_QUERY):
        return {}
    return {name: value for name, value in zip(_QUERY, rows[0], strict=True) if "N/A" not in value}


def _ask_cuda() -> dict[str, str]:
    """Name and compute capability; a board's system may have no nvidia-smi. Empty without a GPU."""
    try:
        done = ask(python("gpu_check.device_child"), _TIMEOUT_S)
        facts = json.loads(done.stdout)
    except (OSError, ValueError):
        return {}
    return {name: facts[name] for name in ("name", "compute_cap") if name in facts}


def environment(context: Context) -> Found:
    """The step: machine, GPU, CUDA, tools."""
    cpu = read_cpu()
    found: Found = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit_of_checkout(),
        "cpu": cpu.model,
        "cores": cpu.physical_cores,
        "memory_bytes": read_memory().total,
    }
    if context.on_gpu:
        nvcc = find_nvcc()
        found |= {"gpu": query_gpu() or _ask_cuda(), "cuda": nvcc_version(nvcc), "nvcc": nvcc}
        found |= device_facts(context)
        # On a board: its power mode, clocks, and whatever else makes it slow.
        doctor = context.run(python("orin_llm.cli", "doctor", "--json"), "doctor")
        found["doctor"] = json.loads(doctor.out) if doctor.out else None
        found["tools"] = {name: shutil.which(name) for name in TOOLS}
    return found


def device_facts(context: Context) -> dict[str, Any]:
    """What CUDA itself says of the device, in the environment of the step."""
    done = context.need(python("gpu_check.device_child"), "device")
    facts: dict[str, Any] = json.loads(done.out)
    if "problem" in facts:
        raise StepFailed(f"CUDA cannot be used: {facts['problem']}")
    return facts
