"""What was measured where, when a server was: this program, the server, and this machine."""

from __future__ import annotations

from typing import Any

from orin_llm.bench.environment import machine, program
from orin_llm.bench.serve.discovery import Found
from orin_llm.bench.watch import Watch
from orin_llm.gguf.footprint import weight_bytes
from orin_llm.gguf.header import Header
from orin_llm.models.describe import parameters, quant


def server_environment(found: Found, watch: Watch, header: Header | None) -> dict[str, Any]:
    """For every report, as bench/environment.py; what nothing tells of the model is None.

    Args:
        watch: of this machine, which is the server's, too, where that is local.
        header: of the file that the server runs, where that is known.
    """
    name = found.client.model
    return {
        **program(),
        "server": {**found.settings, "local": found.client.place.address.is_local},
        "model": {
            "name": name,
            "fingerprint": None,
            "quant": None if header is None else quant(header, name),
            "parameters": None if header is None else parameters(header),
            "bytes": None if header is None else weight_bytes(header),
        },
        **machine(None, watch.stamp, watch.at_start),
    }
