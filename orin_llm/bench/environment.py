"""What was measured where: the program, the model and the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orin_llm.engine import Engine
from orin_llm.extension import load_extension
from orin_llm.host.cpu import read_cpu
from orin_llm.host.repository import commit
from orin_llm.models.describe import parameters, quant

_PACKAGE = Path(__file__).parent.parent


def environment(engine: Engine) -> dict[str, Any]:
    """For every report. `commit` is None where the program does not run from its repository."""
    build = load_extension().build_info()
    cpu = read_cpu()
    header = engine.header
    return {
        "version": build["version"],
        "commit": commit(_PACKAGE),
        "llama_cpp": build["llama_cpp"],
        "upstream_commit": build["upstream_commit"],
        "model": {
            "name": engine.model_path.stem,
            "quant": quant(header, engine.model_path.name),
            "parameters": parameters(header),
            "bytes": sum(tensor.nbytes for tensor in header.tensors),
        },
        "machine": {
            "device": engine.backend["device"],
            "cpu": cpu.model,
            "architecture": cpu.architecture,
            "cores": cpu.physical_cores,
        },
    }
