"""A model in memory: its file checked and loaded, and its tokenizer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from orin_llm import _native
from orin_llm.engine.config import EngineConfig
from orin_llm.engine.kv_memory import wants_all_on_gpu
from orin_llm.engine.progress import LoadProgress
from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.gguf.footprint import weight_bytes
from orin_llm.gguf.header import Header, finder, read_header
from orin_llm.gguf.split import files_there
from orin_llm.host.memory import read_memory


class LoadedModel:
    """Weights and vocabulary. An exception that `on_progress` raises stops the load.

    Attributes:
        model_path: the file; model_file: what it was when it was loaded (see `file_identity`).
    """

    def __init__(
        self,
        path: str | Path,
        header: Header,
        config: EngineConfig,
        on_progress: Callable[[LoadProgress], None] | None,
    ) -> None:
        self.model_path = Path(path)
        self.model_file = file_identity(self.model_path)
        self.header = header
        weights_bytes = weight_bytes(header)
        started = time.monotonic()

        def report(fraction: float) -> None:
            if on_progress is not None:
                elapsed = time.monotonic() - started
                on_progress(LoadProgress(round(fraction * weights_bytes), weights_bytes, elapsed))

        with _native.ReadAhead(_files_to_read_ahead(self.model_path, header, config)):
            self._model: _native.Model | None = _native.Model(
                os.fsencode(path),
                _native.ModelParams(
                    gpu_layers=config.gpu_layers,
                    use_mmap=config.use_mmap,
                    check_tensors=config.check_tensors,
                    table_on_gpu=table_on_gpu(header, config),
                ),
                report,
            )

    @property
    def model(self) -> _native.Model:
        """The native model. Raises OrinError when the engine is closed."""
        if self._model is None:
            raise OrinError("this engine is closed: make a new one")
        return self._model

    @property
    def n_vocab(self) -> int:
        """Tokens of the vocabulary."""
        return self.model.n_vocab

    @property
    def bos_id(self) -> int:
        """The id put before a text, or -1 where the model has none."""
        return self.model.bos

    @property
    def eos_id(self) -> int:
        """The id that ends a text, or -1 where the model has none."""
        return self.model.eos

    @property
    def bos_token(self) -> str:
        """The bos token as it is written in text, or ""."""
        return self._text_of(self.bos_id)

    @property
    def eos_token(self) -> str:
        """The eos token as it is written in text, or ""."""
        return self._text_of(self.eos_id)

    @property
    def add_bos(self) -> bool:
        """Whether `tokenize(add_special=True)` begins with the bos token."""
        return self.model.add_bos

    @cached_property
    def eog_ids(self) -> frozenset[int]:
        """Every token that ends an answer."""
        return frozenset(self.model.eog_tokens())

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """Control and user-defined tokens by the text they are written as."""
        return {
            text.decode("utf-8", "replace"): token
            for text, token in self.model.special_tokens().items()
        }

    @property
    def chat_template(self) -> str | None:
        """The Jinja source that the file brings for chats, if it does."""
        template = finder(self.header)("tokenizer.chat_template")
        return template if isinstance(template, str) else None

    def tokenize(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Token ids of a text.

        Args:
            text: UTF-8 when given as bytes; NULs are allowed.
            add_special: begin with bos (and end with eos) where the model asks for it.
            parse_special: read control tokens written in the text as those tokens.

        Raises:
            OrinError: the text is longer than 64 MiB, or its bytes are no text.
            UsageError: it is neither str nor bytes.
        """
        if not isinstance(text, str | bytes):
            raise UsageError(f"the text is {text!r}: expected str, or bytes of UTF-8")
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        return self.model.tokenize(data, add_special=add_special, parse_special=parse_special)

    def token_bytes(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that one token stands for; a control token gives b"" unless `special`.

        Raises OrinError for an id outside the vocabulary, as `detokenize` does.
        """
        return self.model.token_bytes(token, special=special)

    def detokenize(self, tokens: Iterable[int], *, special: bool = False) -> bytes:
        """The bytes that the tokens stand for together."""
        return self.model.detokenize(list(tokens), special=special)

    def _text_of(self, token: int) -> str:
        return "" if token < 0 else self.token_bytes(token, special=True).decode("utf-8", "replace")


def _files_to_read_ahead(path: Path, header: Header, config: EngineConfig) -> list[bytes]:
    """Those that are mapped whole, where all of them has room in memory."""
    if not config.use_mmap or weight_bytes(header) > read_memory().available:
        return []
    if any(tensor.name == "per_layer_token_embd.weight" for tensor in header.tensors):
        return []  # llama.cpp may leave this large table on the disk, and read rows of it
    if config.gpu_layers != 0 and _native.gpu_memory() is not None:
        return []
    return [os.fsencode(file) for file in files_there(path)]


def table_on_gpu(header: Header, config: EngineConfig) -> tuple[str, int] | None:
    """Type and columns of the table of tokens, where it is to be with the layers on a GPU."""
    tables = [tensor for tensor in header.tensors if tensor.name == "token_embd.weight"]
    wanted = config.hooks.enabled & {"sampling", "uploads"} and wants_all_on_gpu(header, config)
    return (tables[0].type, tables[0].shape[0]) if tables and wanted else None


def read_model_header(path: str | Path) -> Header:
    """The checked header of a file with weights. Raises ModelFileError."""
    header = read_header(Path(path))
    if not header.tensors:
        raise ModelFileError(
            f"{path}: this file holds a vocabulary and no weights: choose a whole model",
            path=str(path),
        )
    return header


def file_identity(path: Path) -> tuple[int, int, int, int]:
    """Device, inode, size and time of change: another file, or other contents, has another."""
    stat = path.stat()
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
