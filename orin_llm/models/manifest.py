"""What the store knows of one model, kept as `manifest.json` beside its files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from orin_llm.errors import ModelFileError

MANIFEST = "manifest.json"
_SCHEMA = 1


@dataclass(frozen=True)
class StoredFile:
    """One file of a model: its name inside the model's folder, its size and its SHA-256 (hex)."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A model as it was pulled.

    Attributes:
        name: in the store; also the folder's name.
        source: the reference it was pulled by, without secrets.
        files: its parts, the first first.
        licence: as the source states it, or "".
        quant: the quantization, such as `Q4_K_M`, or "".
        context: tokens the model was trained for, 0 where the file does not say.
        pulled_at: UTC, ISO 8601.
    """

    name: str
    source: str
    files: tuple[StoredFile, ...]
    licence: str
    quant: str
    context: int
    pulled_at: str

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(file.bytes for file in self.files)

    def write(self, folder: Path) -> None:
        """Write `manifest.json` into `folder`."""
        text = json.dumps({"schema": _SCHEMA, **asdict(self)}, indent=2)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest in `folder`.

        Raises:
            ModelFileError: it is missing or damaged.
        """
        path = folder / MANIFEST
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls._from_json(data, folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(
                f"{path}: the store's record of this model is damaged ({error}): remove the model "
                f"with `orin-llm models rm {folder.name}` and pull it again",
                path=str(path),
            ) from None

    @classmethod
    def _from_json(cls, data: dict[str, object], folder: Path) -> Manifest:
        if data["schema"] != _SCHEMA:
            raise ValueError(f"schema {data['schema']!r}, expected {_SCHEMA}")
        raw_files = data["files"]
        if not isinstance(raw_files, list) or not raw_files:
            raise ValueError("no files")
        files = tuple(
            StoredFile(str(f["name"]), int(f["bytes"]), str(f["sha256"])) for f in raw_files
        )
        for file in files:
            if Path(file.name).name != file.name or file.name in ("", ".", ".."):
                raise ValueError(f"{file.name!r} is not the name of a file")
        return cls(
            name=folder.name,
            source=str(data["source"]),
            files=files,
            licence=str(data["licence"]),
            quant=str(data["quant"]),
            context=int(str(data["context"])),
            pulled_at=str(data["pulled_at"]),
        )
