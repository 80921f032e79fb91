"""How many bytes an engine's steps read, by arithmetic: the weights once a step, and its KV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from orin_llm.engine import StepRecord
from orin_llm.gguf.footprint import bytes_read_per_token, kv_bytes_read
from orin_llm.gguf.header import Header
from orin_llm.gguf.kv_layers import Hyperparameters


@dataclass(frozen=True)
class Traffic:
    """What the model of this header reads with a KV cache of these types (see KvTypes.parse)."""

    header: Header
    kv_type: str

    def steps_bytes(self, steps: Iterable[StepRecord]) -> Iterator[int | None]:
        """Of each of successive steps: weights, and the KV cache of all sequences.

        Activations are left out, pages that sequences share count once, and the output matrix
        counts in each step, also in one that ends no prompt. None for a mixture of experts in a
        step of several tokens: which experts they need together is not known.
        """
        held = 0
        for step in steps:
            new = step.n_prompt_tokens + step.n_decode_tokens
            # A sequence that ended in the step holds no pages after it.
            read = max(step.kv_tokens, held + new)
            held = step.kv_tokens
            if new > 1 and self._is_mixture:
                yield None
            else:
                yield self._weight_bytes + self._cache_bytes(step, read)

    def _cache_bytes(self, step: StepRecord, tokens: int) -> int:
        """Sequences that decode are taken to be of the same length: windows cut them off alike."""
        sequences = max(1, step.n_decode_tokens)
        new = max(1, step.n_prompt_tokens)
        context = round(tokens / sequences)
        return sequences * kv_bytes_read(self.header, context, self.kv_type, new)

    @cached_property
    def _weight_bytes(self) -> int:
        return bytes_read_per_token(self.header)

    @cached_property
    def _is_mixture(self) -> bool:
        return Hyperparameters(self.header).integer("expert_count") > 0
