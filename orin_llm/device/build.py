"""What was built: the extension module's own account, asked in a process that may die of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from orin_llm.host.own_package import importing_environment

_ASK = """
import json
from orin_llm.errors import DeviceUnavailable
from orin_llm.extension import load_extension
try:
    told = load_extension().build_info()
except DeviceUnavailable as error:
    told = {"problem": str(error)}
print(json.dumps(told))
"""
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Build:
    """The build of `orin_llm._native`.

    Attributes:
        problem: why it cannot be used, or ""; the rest is empty then.
        version: of orin-llm.
        llama_cpp, upstream_commit: what llama.cpp was built.
        compiler: first line of its `--version`.
        cpu_flags: instruction sets that the code may use.
        native: built for the processor of the building machine, not for a portable baseline.
        cuda, cuda_architectures, cuda_version: whether and for what GPUs.
        why: one line, why it was built with or without CUDA.
    """

    problem: str = ""
    version: str = ""
    llama_cpp: str = ""
    upstream_commit: str = ""
    compiler: str = ""
    cpu_flags: tuple[str, ...] = field(default_factory=tuple)
    native: bool = False
    cuda: bool = False
    cuda_architectures: str = ""
    cuda_version: str = ""
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**asdict(self), "cpu_flags": list(self.cpu_flags)}


def build_info(python: str = sys.executable) -> Build:
    """Ask the extension module what it is.

    A child process asks: code for a processor with more instructions dies of an illegal one, and
    a missing CUDA library fails the import; this process must be able to say so.
    """
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            cwd="/",  # a checkout there would be imported instead
            env=importing_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Build(problem=f"the extension module does not load: {error}")
    if done.returncode == -signal.SIGILL:
        return Build(
            problem="the extension module uses instructions that this processor lacks: build it "
            "here again, or with ORIN_LLM_NATIVE=off for any machine"
        )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return Build(
            problem=f"the extension module does not load ({said[-1]}): build it here with "
            "scripts/build.sh"
        )
    return _from_json(json.loads(done.stdout))


def _from_json(data: dict[str, Any]) -> Build:
    known = {name: data[name] for name in Build.__dataclass_fields__ if name in data}
    return Build(**{**known, "cpu_flags": tuple(data.get("cpu_flags", ()))})
