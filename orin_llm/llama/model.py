"""The part of llama-cpp-python's Llama that loads a model and knows its tokens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeVar

from orin_llm.closeable import Closeable
from orin_llm.engine import Engine, Hooks, LoadProgress
from orin_llm.errors import UsageError
from orin_llm.llama.options import RANDOM_SEEDS, check_constructor_options, engine_config
from orin_llm.text.encode import ChatEncoder
from orin_llm.text.model_template import model_template
from orin_llm.text.template import ChatTemplate

Self = TypeVar("Self", bound="LlamaModel")


class LlamaModel(Closeable):
    """A loaded model.

    Arguments that only tune speed in llama-cpp-python are taken and ignored; those that ask for
    something that this package cannot do raise UsageError.

    Args:
        model_path: a GGUF file.
        n_gpu_layers: layers kept on the GPU; -1 is all of them.
        use_mmap: map the file instead of reading it, where that helps.
        seed: of every completion that is not given one of its own; -1 takes a new one each time.
        n_ctx: tokens that a prompt and its answer may have together; 0 takes the model's limit.
        n_batch, n_ubatch: prompt tokens computed in one step (the smaller of the two).
        n_threads: CPU threads; None takes the physical cores that the process may use.
        last_n_tokens_size: recent tokens that the repeat, frequency and presence penalties look at.
        chat_format: None takes the template of the model file; "chatml" takes that form;
            "chat_template.NAME" takes a named template of the file.
        type_k, type_v: ggml's numbers of the element types of keys and of values; None: f16.
        hooks: see EngineConfig; on_progress: see Engine. Both are this package's own.
        options: other arguments of llama-cpp-python.

    Raises:
        ModelFileError: the file is missing, damaged or not supported.
        UsageError: an argument is not supported or out of range.
    """

    def __init__(
        self,
        model_path: str,
        *,
        n_gpu_layers: int = 0,
        use_mmap: bool = True,
        seed: int = 0xFFFFFFFF,
        n_ctx: int = 512,
        n_batch: int = 512,
        n_ubatch: int = 512,
        n_threads: int | None = None,
        last_n_tokens_size: int = 64,
        chat_format: str | None = None,
        type_k: int | None = None,
        type_v: int | None = None,
        hooks: Hooks | None = None,
        on_progress: Callable[[LoadProgress], None] | None = None,
        **options: Any,
    ) -> None:
        check_constructor_options(options)
        config = engine_config(
            n_ctx=n_ctx,
            n_batch=n_batch,
            n_ubatch=n_ubatch,
            n_threads=n_threads,
            n_gpu_layers=n_gpu_layers,
            use_mmap=use_mmap,
            type_k=type_k,
            type_v=type_v,
            hooks=hooks or Hooks(),
        )
        self.model_path = str(model_path)
        self.last_n_tokens_size = last_n_tokens_size
        self.set_seed(seed)
        self._engine = Engine(self.model_path, config, on_progress)
        self.metadata = _metadata_texts(self._engine.header.metadata)
        try:
            self._chat = ChatEncoder(self._engine, self._template(chat_format))
        except UsageError:
            self.close()
            raise
        self.chat_format = chat_format or "chat_template.default"

    @classmethod
    def from_pretrained(
        cls: type[Self],
        repo_id: str,
        filename: str,
        additional_files: Sequence[str] | None = None,
        local_dir: str | PathLike[str] | None = None,
        cache_dir: str | PathLike[str] | None = None,
        **options: Any,
    ) -> Self:
        """Fetch a file from Hugging Face, into its cache unless `local_dir` is given, and load it.

        Args:
            repo_id: "owner/name".
            filename: a file of the repository, or a pattern such as "*Q4_K_M.gguf" that one fits.
            additional_files: more of them, such as the other parts of a split model.
            options: arguments of the constructor.

        Raises:
            OrinError: there is no such file, or it cannot be fetched.
        """
        from orin_llm.llama.hub import fetch

        path, *_ = [
            fetch(repo_id, name, local_dir=local_dir, cache_dir=cache_dir)
            for name in (filename, *(additional_files or ()))
        ]
        return cls(path, **options)

    # Tokens

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        """Token ids of a text in UTF-8.

        Args:
            add_bos: begin (and end) with the tokens that the model asks for.
            special: parse control tokens that the text spells out.
        """
        return self._engine.tokenize(text, add_special=add_bos, parse_special=special)

    def detokenize(
        self,
        tokens: Sequence[int],
        prev_tokens: Sequence[int] | None = None,
        special: bool = False,
    ) -> bytes:
        """The bytes that tokens stand for. `prev_tokens` changes nothing.

        Args:
            special: write control tokens out; otherwise they stand for nothing.
        """
        data = b"".join(self._engine.token_bytes(token, special=special) for token in tokens)
        # Some vocabularies put a space before every text: behind bos it is not the text's own.
        follows_bos = len(tokens) > 0 and tokens[0] == self._engine.bos_id
        return data[1:] if follows_bos and data.startswith(b" ") else data

    def n_ctx(self) -> int:
        """Tokens that the context holds."""
        return self._engine.n_ctx

    def n_vocab(self) -> int:
        """Tokens in the vocabulary."""
        return self._engine.n_vocab

    def n_embd(self) -> int:
        """Width of the model's hidden states."""
        return int(self.metadata[f"{self.metadata['general.architecture']}.embedding_length"])

    def token_bos(self) -> int:
        """The id that begins a text, or -1."""
        return self._engine.bos_id

    def token_eos(self) -> int:
        """The id that ends a text, or -1."""
        return self._engine.eos_id

    # State

    def set_seed(self, seed: int) -> None:
        """Seed for completions that are not given one; -1 takes a new one each time."""
        self._seed = None if seed in RANDOM_SEEDS else seed

    def reset(self) -> None:
        """Empty the KV cache. Answers do not depend on what it holds."""
        self._engine.forget()

    def close(self) -> None:
        """Free the model."""
        self._engine.close()

    def _template(self, chat_format: str | None) -> ChatTemplate:
        name = (chat_format or "chat_template.default").removeprefix("chat_template.")
        if name == "default":
            return model_template(self._engine, lambda said: warnings.warn(said, stacklevel=5))
        source = None
        if name != "chatml":
            source = self.metadata.get(f"tokenizer.chat_template.{name}")
            if source is None:
                raise UsageError(
                    f"chat_format={chat_format!r} is not supported: leave it out to use the model "
                    "file's template, or give 'chatml' or 'chat_template.NAME' of one in the file"
                )
        return ChatTemplate(
            source, bos_token=self._engine.bos_token, eos_token=self._engine.eos_token
        )


def _metadata_texts(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The file's metadata as text, as llama.cpp writes it; arrays are left out there."""
    texts = {}
    for key, value in metadata.items():
        if isinstance(value, bool):
            texts[key] = "true" if value else "false"
        elif isinstance(value, float):
            texts[key] = f"{value:f}"
        elif isinstance(value, (int, str)):
            texts[key] = str(value)
    return texts
