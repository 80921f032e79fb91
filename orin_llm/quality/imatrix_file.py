"""Files of importance matrices: llama.cpp's GGUF format, read and written; the older one, read.

The format: `general.type` is `imatrix`, `imatrix.datasets` names the texts, `imatrix.chunk_count`
and `imatrix.chunk_size` are windows and their tokens. Each tensor NAME of the model has two in the
file, `NAME.in_sum2` and `NAME.counts`, both F32. Keys of ours begin with `orin.imatrix.`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from gguf import GGUFValueType as ValueType
from numpy.typing import NDArray

from orin_llm.errors import ModelFileError
from orin_llm.gguf.header import Header, Tensor, read_container
from orin_llm.models import gguf_io
from orin_llm.models.gguf_io import Value
from orin_llm.quality.imatrix import Collected, Entry, Imatrix, sorted_entries
from orin_llm.quality.imatrix_legacy import read_legacy

SUMS, COUNTS = ".in_sum2", ".counts"
MAX_FILE_BYTES = 1 << 33  # 256 experts of 7168 in 60 layers take a sixth of it
MAX_COUNT = 2**53  # beyond, a count is no token count


def read_imatrix(path: Path) -> Imatrix:
    """Reads a file of either format; every number in it is finite, and none is negative.

    Raises:
        ModelFileError: it is damaged, missing, or no importance matrix.
        DeviceUnavailable: the extension module is not built or does not load.
    """
    try:
        if path.is_file() and (n_bytes := path.stat().st_size) > MAX_FILE_BYTES:
            _refuse(path, "", f"{n_bytes} bytes are too many for an importance matrix")
        if path.is_file() and not _is_gguf(path):
            return read_legacy(path)
        return _read_gguf(path)
    except OSError as error:
        raise ModelFileError(f"{path}: {error.strerror or error}", path=str(path)) from error


def write_imatrix(path: Path, imatrix: Imatrix, *, force: bool = False) -> None:
    """Writes the GGUF format; the file appears whole or not at all.

    Raises:
        UsageError: `path` exists and `force` is false, or no file can be there.
        OrinError: the disk is full or may not be written.
        ValueError: a tensor's name is too long for the format.
    """
    metadata = {
        "general.type": Value.string("imatrix"),
        "imatrix.datasets": Value(ValueType.STRING, list(imatrix.datasets) or ["unknown"]),
        "imatrix.chunk_count": Value.u32(imatrix.chunk_count),
        "imatrix.chunk_size": Value.u32(imatrix.chunk_size),
    }
    if imatrix.collected is not None:
        metadata |= {
            "orin.imatrix.text_sha256": Value.string(imatrix.collected.text_sha256),
            "orin.imatrix.model": Value.string(imatrix.collected.model),
            "orin.imatrix.windows_done": Value.u32(imatrix.collected.windows_done),
            "orin.imatrix.windows_total": Value.u32(imatrix.collected.windows_total),
            "orin.imatrix.with_output": Value.boolean(imatrix.collected.with_output),
        }
    tensors = []
    for name, entry in sorted_entries(imatrix.entries).items():
        tensors.append(_tensor(name + SUMS, entry.sums))
        tensors.append(_tensor(name + COUNTS, entry.counts[:, None].astype(np.float32)))
    gguf_io.write_gguf(path, metadata, tensors, force=force)


def _tensor(name: str, values: NDArray[np.float32]) -> gguf_io.Tensor:
    if len(name.encode("utf-8", "surrogateescape")) > 63:
        raise ValueError(f"{name}: a tensor's name has at most 63 bytes")

    def chunks() -> Iterator[NDArray[Any]]:
        yield np.ascontiguousarray(values, dtype="<f4")

    n_mat, n = values.shape
    # llama.cpp writes no dimension of 1 at the end.
    return gguf_io.Tensor(name, (n, n_mat) if n_mat > 1 else (n,), "F32", chunks)


def _is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def _read_gguf(path: Path) -> Imatrix:
    header = read_container(path)
    tensors = {tensor.name: tensor for tensor in header.tensors}
    names = {
        name.removesuffix(suffix)
        for suffix in (SUMS, COUNTS)
        for name in tensors
        if name.endswith(suffix)
    }
    if not names:
        _refuse(path, "", f"not an importance matrix: no tensor's name ends in {SUMS}")
    entries = {}
    with path.open("rb") as file:
        for name in names:
            for one, other in ((SUMS, COUNTS), (COUNTS, SUMS)):
                if name + other not in tensors:
                    _refuse(path, name + one, f"there is no {name}{other} beside it")
            counts = _counts(path, file, tensors[name + COUNTS])
            sums = _values(path, file, tensors[name + SUMS])
            if sums.size % counts.size:
                what = f"{sums.size} sums are not rows of the same size for {counts.size} counts"
                _refuse(path, name + SUMS, what)
            entries[name] = Entry(sums.reshape(counts.size, -1), counts)
    return Imatrix(
        sorted_entries(entries),
        tuple(_key(path, header, "imatrix.datasets", ValueType.STRING, list)),
        _key(path, header, "imatrix.chunk_count", ValueType.UINT32, int),
        _key(path, header, "imatrix.chunk_size", ValueType.UINT32, int),
        collected=_collected(path, header),
    )


def _collected(path: Path, header: Header) -> Collected | None:
    if "orin.imatrix.text_sha256" not in header.metadata:
        return None
    return Collected(
        _key(path, header, "orin.imatrix.text_sha256", ValueType.STRING, str),
        _key(path, header, "orin.imatrix.model", ValueType.STRING, str),
        _key(path, header, "orin.imatrix.windows_done", ValueType.UINT32, int),
        _key(path, header, "orin.imatrix.windows_total", ValueType.UINT32, int),
        _key(path, header, "orin.imatrix.with_output", ValueType.BOOL, bool),
    )


def _key(path: Path, header: Header, key: str, value_type: ValueType, python: type) -> Any:
    value = header.metadata.get(key)
    if value is None:
        _refuse(path, key, "the metadata key is missing: the file is no whole importance matrix")
    if header.value_types[key] != value_type or not isinstance(value, python):
        many = "a list of " if python is list else ""
        _refuse(path, key, f"expected {many}{value_type.name.lower()} as this key's value")
    return value


def _values(path: Path, file: Any, tensor: Tensor) -> NDArray[np.float32]:
    if tensor.type != "F32":
        _refuse(path, tensor.name, f"of type {tensor.type}, expected F32", tensor.offset)
    file.seek(tensor.offset)
    data = file.read(tensor.nbytes)
    if len(data) < tensor.nbytes:
        _refuse(path, tensor.name, "the file shrank while it was read", tensor.offset)
    values: NDArray[np.float32] = np.frombuffer(data, dtype="<f4")
    if not values.size:
        _refuse(path, tensor.name, "it is empty", tensor.offset)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        what = "expected finite numbers of at least 0; collect the matrix again"
        _refuse(path, tensor.name, what, tensor.offset)
    return values


def _counts(path: Path, file: Any, tensor: Tensor) -> NDArray[np.int64]:
    values = _values(path, file, tensor).astype(np.float64)
    if values.max() > MAX_COUNT:
        _refuse(path, tensor.name, f"{values.max():g} is no number of tokens", tensor.offset)
    return np.floor(values + 0.5).astype(np.int64)


def _refuse(path: Path, field: str, what: str, offset: int | None = None) -> NoReturn:
    where = f"{path}: {field}: " if field else f"{path}: "
    raise ModelFileError(where + what, path=str(path), field=field, offset=offset)
