"""Reading a GGUF header, and the shape of what comes back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from orin_llm.gguf.split import part_paths


class Tensor(Protocol):
    """One entry of the tensor table.

    Attributes:
        type: such as `Q4_K`.
        shape: elements, the fastest dimension first.
        offset: of its data, from the beginning of the file.
        nbytes: bytes of its data.
    """

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def offset(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


class Header(Protocol):
    """What is in a GGUF file before the data: metadata by key, and the tensor table.

    Attributes:
        value_types: the format's number of each metadata value's type; of a list, its items'.
    """

    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def value_types(self) -> Mapping[str, int]: ...
    @property
    def tensors(self) -> Sequence[Tensor]: ...


def finder(header: Header) -> Callable[[str], Any]:
    """What gives the value of a key, or None, and makes no other values where that is possible.

    To make objects of a vocabulary takes longer than to read the file's header.
    """
    if hasattr(header, "value"):
        found: Callable[[str], Any] = header.value
        return found
    return header.metadata.get


def read_header(path: Path) -> Header:
    """Check the file's header against every limit and return it; the tensors' data is not read.

    Given the first part of a split model, it answers for all parts.

    Raises:
        ModelFileError: the file is damaged, of another kind, or not supported.
        DeviceUnavailable: the extension module is not built or does not load.
    """
    from orin_llm import _native

    raw_path: Any = os.fsencode(path)  # a path need not be UTF-8
    header: Header = _native.check_gguf(raw_path)
    return header


def read_container(path: Path) -> Header:
    """The header of a GGUF file that need not be a model.

    Raises:
        ModelFileError: it is damaged, or no GGUF file.
        DeviceUnavailable: the extension module is not built or does not load.
    """
    from orin_llm import _native

    raw_path: Any = os.fsencode(path)
    header: Header = _native.check_gguf_container(raw_path)
    return header


def read_model_header(path: Path) -> Header:
    """The header of the model that `path` is a file of; any part of a split one will do.

    Raises:
        ModelFileError: a file is damaged, of another kind, or missing.
        DeviceUnavailable: the extension module is not built or does not load.
    """
    return read_header(part_paths(path)[0])
