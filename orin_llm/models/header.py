"""Reading a GGUF header, and the shape of what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from orin_llm.errors import DeviceUnavailable
from orin_llm.models.split import parts_of


class Tensor(Protocol):
    """One entry of the tensor table.

    Attributes:
        type: such as `Q4_K`.
        shape: elements, the fastest dimension first.
        nbytes: bytes of its data.
    """

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def nbytes(self) -> int: ...


class Header(Protocol):
    """What is in a GGUF file before the data: metadata by key, and the tensor table."""

    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def tensors(self) -> Sequence[Tensor]: ...


def read_header(path: Path) -> Header:
    """Check the file's header against every limit and return it; the tensors' data is not read.

    Raises:
        ModelFileError: the file is damaged, of another kind, or not supported.
        DeviceUnavailable: the extension module is not built.
    """
    try:
        from orin_llm._native import check_gguf
    except ImportError as error:
        raise DeviceUnavailable(
            f"the extension module orin_llm._native cannot be loaded ({error}): build it with "
            "`pip install .` or scripts/quickstart.sh; `orin-llm doctor` says more"
        ) from None
    header: Header = check_gguf(str(path))
    return header


@dataclass(frozen=True)
class WholeHeader:
    """The headers of all parts of a model, as if it were one file."""

    metadata: Mapping[str, Any]
    tensors: Sequence[Tensor]


def read_model_header(path: Path) -> Header:
    """The header of a model in one file or, given any of its parts, in several.

    Raises:
        ModelFileError: a part is missing or damaged.
        DeviceUnavailable: the extension module is not built.
    """
    parts = parts_of(path.name)
    headers = [read_header(path.with_name(part)) for part in parts]
    tensors = [tensor for header in headers for tensor in header.tensors]
    return WholeHeader(headers[0].metadata, tensors)
