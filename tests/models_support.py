"""For tests of the model store: the command in a process of its own, and tiny models."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gguf_bytes import (
    Shape,
    Typed,
    model_metadata,
    model_tensors,
    spm_vocab,
    string,
    tiny_llama_bytes,
    u32,
    write_gguf,
)
from processes import CLI, environment, run

from orin_llm.models.reporter import Progress, Reporter
from orin_llm.models.store import Store

TINY = tiny_llama_bytes(metadata={"general.license": string("mit")})


class Recorder(Reporter):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.steps: list[Progress] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def progress(self, progress: Progress) -> None:
        self.steps.append(progress)


def everything(store: Store) -> list[str]:
    """All files of a store but the locks, which stay."""
    files = (p for p in store.root.rglob("*") if p.is_file() and p.parent.name != ".locks")
    return sorted(str(p.relative_to(store.root)) for p in files)


def store_environment(store: Path, **variables: str) -> dict[str, str]:
    """The environment of a command that uses this store, and a cache beside it."""
    places = {"ORIN_LLM_MODELS": str(store), "HF_HOME": str(store.parent / "hf")}
    return environment(**{**places, "COLUMNS": "80", **variables})


def orin_llm(*arguments: str, store: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `orin-llm ARGUMENTS` to its end."""
    return run([*CLI, *arguments], env=store_environment(store, **variables))


def split_model() -> list[bytes]:
    """A tiny model in two files: the tables of their tensors do not overlap."""
    shape = Shape()
    tensors = model_tensors(shape)
    half = len(tensors) // 2

    def part(number: int, metadata: dict[str, Typed]) -> dict[str, Typed]:
        u16 = Typed("u16", number)
        count = {"split.count": Typed("u16", 2), "split.tensors.count": Typed("i32", len(tensors))}
        return {**metadata, "split.no": u16, **count}

    first = part(0, {**model_metadata(shape), **spm_vocab(shape.n_vocab)})
    second = part(1, {})
    return [
        write_gguf(first, tensors[:half]).data,
        write_gguf(second, tensors[half:]).data,
    ]


def write_split_model(folder: Path, name: str = "split") -> list[Path]:
    """Its two files, in order."""
    paths = [folder / f"{name}-0000{number}-of-00002.gguf" for number in (1, 2)]
    for path, data in zip(paths, split_model(), strict=True):
        path.write_bytes(data)
    return paths


def model_with_context(tokens: int) -> bytes:
    """Another tiny model, told apart from TINY by its context."""
    return tiny_llama_bytes(metadata={"llama.context_length": u32(tokens)})
