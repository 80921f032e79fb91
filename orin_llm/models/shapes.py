"""Shapes of real models, as data: what `models synth` writes random weights into."""

from __future__ import annotations

from dataclasses import dataclass

from orin_llm.errors import UsageError


@dataclass(frozen=True)
class RopeScaling:
    """How Llama 3.1 and later scale the slow RoPE dimensions for a longer context."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True)
class ModelShape:
    """Hyperparameters of a llama-architecture model, as its published configuration has them."""

    title: str
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    n_ff: int
    context_length: int
    n_vocab: int
    tied_embeddings: bool
    rope_base: float = 500_000.0
    rms_epsilon: float = 1e-5
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        if self.n_embd % self.n_head or self.n_head % self.n_head_kv:
            raise ValueError("n_head must divide n_embd, and n_head_kv must divide n_head")
        if self.n_embd % 256 or self.n_ff % 256:
            raise ValueError("K-quants need n_embd and n_ff divisible by 256")

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head

    @property
    def n_embd_kv(self) -> int:
        return self.n_head_kv * self.head_dim


# Figures from the models' published config.json files.
SHAPES = {
    "llama-3-8b": ModelShape(
        title="Llama 3 8B",
        n_layer=32,
        n_embd=4096,
        n_head=32,
        n_head_kv=8,
        n_ff=14336,
        context_length=8192,
        n_vocab=128256,
        tied_embeddings=False,
    ),
    "llama-3.2-3b": ModelShape(
        title="Llama 3.2 3B",
        n_layer=28,
        n_embd=3072,
        n_head=24,
        n_head_kv=8,
        n_ff=8192,
        context_length=131072,
        n_vocab=128256,
        tied_embeddings=True,
        rope_scaling=RopeScaling(32.0, 1.0, 4.0, 8192),
    ),
    "llama-3.2-1b": ModelShape(
        title="Llama 3.2 1B",
        n_layer=16,
        n_embd=2048,
        n_head=32,
        n_head_kv=8,
        n_ff=8192,
        context_length=131072,
        n_vocab=128256,
        tied_embeddings=True,
        rope_scaling=RopeScaling(32.0, 1.0, 4.0, 8192),
    ),
    # No published model: the smallest that has everything the others have, for tests.
    "tiny": ModelShape(
        title="tiny Llama",
        n_layer=4,
        n_embd=256,
        n_head=4,
        n_head_kv=2,
        n_ff=512,
        context_length=8192,
        n_vocab=2048,
        tied_embeddings=True,
        rope_scaling=RopeScaling(8.0, 1.0, 4.0, 1024),
    ),
}


def shape_named(name: str) -> ModelShape:
    """The shape of that name.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    if name not in SHAPES:
        raise UsageError(f"unknown shape {name!r}; choose one of: {', '.join(SHAPES)}")
    return SHAPES[name]
