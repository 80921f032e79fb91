"""A sequence driven step by step: the caller chooses each token and looks at the logits."""

from __future__ import annotations

from orin_llm import _native
from orin_llm.engine import Engine


def step_probe(engine: Engine) -> _native.testing.StepProbe:
    """Steps on the engine's model, with contexts and a KV cache of its own."""
    return _native.testing.StepProbe(engine.model, engine.native_params)
