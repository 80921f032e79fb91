"""The file that keeps a sequence's keys and values: docs/state.md gives its layout.

What a file claims is checked against limits and against its size before anything is read by it, and
all of its bytes against the checksum before any of them is used.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from orin_llm.closeable import Closeable
from orin_llm.errors import OrinError, StateFileError
from orin_llm.host.disk import replacing, require_space

# As in PNG: the line ends and the first byte betray a transfer as text.
MAGIC = b"\x89OKV\r\n\x1a\n"
VERSION = 1
HEAD_BYTES = 1024  # magic, version, length of the JSON, the JSON, zeros
TOKEN_BYTES = 4
CHECKSUM_BYTES = 32
MAX_TOKENS = 1 << 22  # the largest context that an engine takes
MAX_ROW_BYTES = 1 << 26  # of one token in all layers
MAX_MODEL_NAME = 60  # characters, of at most 12 bytes in JSON
READ_BYTES = 1 << 20

_PREFIX = struct.Struct("<8sII")


@dataclass(frozen=True)
class StateHead:
    """What a file says of itself.

    Attributes:
        model: fingerprint of the model (see model_fingerprint).
        model_name: for people.
        kv_type: element type of keys and values.
        long_context: computed with the RoPE factors for long contexts, if the model has two sets.
        row_bytes: bytes of one token's keys and values in all layers.
        n_tokens: tokens in the file.
    """

    model: str
    model_name: str
    kv_type: str
    long_context: bool
    row_bytes: int
    n_tokens: int

    @property
    def file_bytes(self) -> int:
        return HEAD_BYTES + self.n_tokens * (self.row_bytes + TOKEN_BYTES) + CHECKSUM_BYTES

    def encoded(self) -> bytes:
        """The first HEAD_BYTES of the file."""
        text = json.dumps(asdict(self)).encode()
        return (_PREFIX.pack(MAGIC, VERSION, len(text)) + text).ljust(HEAD_BYTES, b"\0")


def is_state_file(path: Path) -> bool:
    """Whether the file begins as one of any version does. StateFileError: it is no regular file."""
    with _opened(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def write_state(
    path: Path, head: StateHead, tokens: Sequence[int], slices: Iterator[bytes]
) -> StateHead:
    """Write a file that appears under its name when it is complete and on the disk.

    Args:
        path: a file there is replaced.
        head: its n_tokens does not count; that of what is returned is the rows' number.
        tokens: at least as many as there are rows; there must be room for as many.
        slices: the rows in order, some at a time.

    Raises:
        OrinError: the file cannot be written.
    """
    digest = hashlib.sha256()
    n_bytes = 0
    try:
        require_space(path.absolute().parent, replace(head, n_tokens=len(tokens)).file_bytes)
        with replacing(path) as part, part.open("r+b") as file:
            file.seek(HEAD_BYTES)
            for rows in slices:
                file.write(rows)
                digest.update(rows)
                n_bytes += len(rows)
            head = replace(head, n_tokens=n_bytes // head.row_bytes)
            ids = np.asarray(tokens[: head.n_tokens], "<i4").tobytes()
            digest.update(ids)
            digest.update(head.encoded())
            file.write(ids + digest.digest())
            file.seek(0)
            file.write(head.encoded())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OrinError(
                f"the disk filled up while {path} was written: free some space and try again"
            ) from error
        raise OrinError(f"{path} cannot be written: {error.strerror or error}") from error
    return head


class StateFile(Closeable):
    """A file being read. A context manager.

    Attributes:
        head: what the file says of itself; sizes that it gives agree with the file's own.

    Raises:
        StateFileError: (methods, too) the file cannot be read, is no state file or a damaged one.
    """

    head: StateHead

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)
        try:
            self._head_bytes = self._read(HEAD_BYTES)
            self.head = self._parse_head()
            self._check_size()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def checked_tokens(self) -> list[int]:
        """Read the whole file once, compare it with its checksum, and return the token ids."""
        digest = hashlib.sha256()
        for rows in self.slices(max(1, READ_BYTES // self.head.row_bytes)):
            digest.update(rows)
        ids = self._read(self.head.n_tokens * TOKEN_BYTES)
        digest.update(ids)
        digest.update(self._head_bytes)
        if self._read(CHECKSUM_BYTES) != digest.digest():
            raise self._damaged("its contents do not match its checksum")
        tokens: list[int] = np.frombuffer(ids, "<i4").tolist()
        return tokens

    def slices(self, n_tokens: int) -> Iterator[bytes]:
        """The rows from the first one on, `n_tokens` at a time and the rest last."""
        self._file.seek(HEAD_BYTES)
        for first in range(0, self.head.n_tokens, n_tokens):
            yield self._read(min(n_tokens, self.head.n_tokens - first) * self.head.row_bytes)

    def _read(self, n_bytes: int) -> bytes:
        try:
            data = self._file.read(n_bytes)
        except OSError as error:
            raise _unreadable(self._path, error) from error
        if len(data) < n_bytes:
            raise self._damaged(f"it ends {n_bytes - len(data)} bytes too early")
        return data

    def _parse_head(self) -> StateHead:
        magic, version, n_json = _PREFIX.unpack_from(self._head_bytes)
        if magic != MAGIC:
            raise StateFileError(f"{self._path} is no saved state of orin-llm")
        if version != VERSION:
            raise StateFileError(
                f"{self._path} has version {version} of the format, {VERSION} is understood: it "
                "was saved by another release of orin-llm"
            )
        if n_json > HEAD_BYTES - _PREFIX.size:
            raise self._damaged(f"its header is {n_json} bytes long, more than {HEAD_BYTES}")
        try:
            values = json.loads(self._head_bytes[_PREFIX.size : _PREFIX.size + n_json])
        except (ValueError, RecursionError) as error:
            raise self._damaged("its header is not JSON") from error
        return self._checked_head(values)

    def _checked_head(self, values: object) -> StateHead:
        types = {"str": str, "int": int, "bool": bool}
        expected = {field.name: types[str(field.type)] for field in fields(StateHead)}
        if not isinstance(values, dict) or values.keys() != expected.keys():
            raise self._damaged(f"its header does not have just {', '.join(expected)}")
        for name, kind in expected.items():
            if type(values[name]) is not kind:
                raise self._damaged(f"{name} in its header is no {kind.__name__}")
        head = StateHead(**values)
        for name, value, limit in (
            ("row_bytes", head.row_bytes, MAX_ROW_BYTES),
            ("n_tokens", head.n_tokens, MAX_TOKENS),
        ):
            if not 1 <= value <= limit:
                raise self._damaged(f"{name} in its header is {value}, outside 1 … {limit}")
        return head

    def _check_size(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        if size != self.head.file_bytes:
            raise self._damaged(
                f"it has {size} bytes, {self.head.file_bytes} belong to its "
                f"{self.head.n_tokens} tokens"
            )

    def _damaged(self, reason: str) -> StateFileError:
        return StateFileError(f"{self._path} is damaged: {reason}")


def _opened(path: Path) -> BinaryIO:
    """The file, if it is one: opening a pipe would wait for who writes it."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if stat.S_ISREG(os.fstat(number).st_mode):
            return open(number, "rb")
        os.close(number)
    except OSError as error:
        raise _unreadable(path, error) from error
    raise StateFileError(f"{path} is no regular file")


def _unreadable(path: Path, error: OSError) -> StateFileError:
    return StateFileError(f"{path} cannot be read: {error.strerror or error}")
