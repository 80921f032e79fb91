"""The registry: models known by a short name, out of the data file `registry.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class WheelMember:
    """A model that a Python package carries.

    Attributes:
        bytes: size of the wheel.
        member: the model's path inside the wheel.
    """

    package: str
    version: str
    bytes: int
    member: str


@dataclass(frozen=True)
class HubFile:
    """A file of a repository on a model hub."""

    repo: str
    file: str


@dataclass(frozen=True)
class RegistryEntry:
    """One model of the registry.

    Attributes:
        bytes: size of the file; 0 where it is not known.
        sha256: its checksum (hex); None where it is not known.
        parameters: such as `8.0B`.
        context: tokens the model was trained for.
    """

    name: str
    description: str
    source: WheelMember | HubFile
    bytes: int
    sha256: str | None
    parameters: str
    quant: str
    context: int
    licence: str

    def to_json(self) -> dict[str, Any]:
        """For `--json`: sizes in bytes; `sha256` is null where it is not known."""
        return {
            "name": self.name,
            "description": self.description,
            "size_bytes": self.bytes,
            "sha256": self.sha256,
            "parameters": self.parameters,
            "quant": self.quant,
            "context": self.context,
            "licence": self.licence,
        }


@cache
def registry() -> dict[str, RegistryEntry]:
    """All entries by name, in the order of the data file."""
    text = files("orin_llm.models").joinpath("registry.json").read_text(encoding="utf-8")
    return {name: _entry(name, data) for name, data in json.loads(text).items()}


def _entry(name: str, data: dict[str, Any]) -> RegistryEntry:
    source: WheelMember | HubFile
    if "wheel" in data:
        source = WheelMember(**data["wheel"])
    else:
        source = HubFile(data["repo"], data["file"])
    return RegistryEntry(
        name=name,
        description=data["description"],
        source=source,
        bytes=data.get("bytes", 0),
        sha256=data.get("sha256"),
        parameters=data["parameters"],
        quant=data["quant"],
        context=data["context"],
        licence=data["licence"],
    )
