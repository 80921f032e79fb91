"""What was measured where: the program, the model and the machine."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from orin_llm.device.reading import Reading
from orin_llm.device.stamp import Stamp
from orin_llm.engine.fingerprint import model_fingerprint
from orin_llm.extension import load_extension
from orin_llm.gguf.footprint import weight_bytes
from orin_llm.gguf.header import Header
from orin_llm.host.cpu import read_cpu
from orin_llm.host.repository import commit
from orin_llm.models.describe import parameters, quant

_PACKAGE = Path(__file__).parent.parent


def environment(
    path: Path, header: Header, device: str, stamp: Stamp, at_start: Reading | None = None
) -> dict[str, Any]:
    """For every report. `commit` is None where the program does not run from its repository.

    Args:
        path: of the model, whose header this is.
        device: where the engine computes.
        stamp: of the machine; at_start: its sensors before anything was measured.
    """
    return {
        **program(),
        "model": {
            "name": path.stem,
            "fingerprint": model_fingerprint(path),
            "quant": quant(header, path.name),
            "parameters": parameters(header),
            "bytes": weight_bytes(header),
        },
        **machine(device, stamp, at_start),
    }


def program() -> dict[str, Any]:
    """This program, and when it measured."""
    build = load_extension().build_info()
    return {
        "version": build["version"],
        "commit": commit(_PACKAGE),
        "llama_cpp": build["llama_cpp"],
        "upstream_commit": build["upstream_commit"],
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def machine(device: str | None, stamp: Stamp, at_start: Reading | None) -> dict[str, Any]:
    """The machine that this program runs on; `device` is None where it computes nothing."""
    cpu = read_cpu()
    return {
        "machine": {
            "device": device,
            "cpu": cpu.model,
            "architecture": cpu.architecture,
            "cores": cpu.physical_cores,
        },
        "stamp": stamp.to_json(),
        "at_start": {
            "temperatures_c": dict(at_start.temperatures_c) if at_start else {},
            "hottest_c": at_start.hottest_c if at_start else None,
        },
    }
