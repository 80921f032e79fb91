"""Which tensors are to have a type of the user's own: `--keep NAME=TYPE`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orin_llm.errors import UsageError

OUTPUT, EMBEDDINGS = "output.weight", "token_embd.weight"


@dataclass(frozen=True)
class Keep:
    """Types of the user's own.

    Attributes:
        output: of the output matrix; of the embeddings where these are the output, too.
        embeddings: of the token embeddings.
        patterns: regular expression in a tensor's name, and its type; the first that matches wins.
    """

    output: str | None = None
    embeddings: str | None = None
    patterns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, rules: Iterable[str]) -> Keep:
        """From `output=Q8_0`, `token_embd=F16`, `attn_v=Q6_K` or `ffn_down=…`.

        Raises:
            UsageError: a rule that is not written so, or an output given twice.
        """
        tables: dict[str, str] = {}
        patterns = []
        for rule in rules:
            name, _, ggml_type = rule.rpartition("=")
            if not name or not ggml_type:
                raise UsageError(f"--keep {rule}: expected NAME=TYPE, such as output=Q8_0")
            whole = name if name.endswith(".weight") else f"{name}.weight"
            if whole not in (OUTPUT, EMBEDDINGS):
                patterns.append((name, ggml_type.upper()))
            elif tables.setdefault(whole, ggml_type.upper()) != ggml_type.upper():
                raise UsageError(f"--keep {rule}: {name} has the type {tables[whole]} already")
        return cls(tables.get(OUTPUT), tables.get(EMBEDDINGS), tuple(patterns))

    def __bool__(self) -> bool:
        return bool(self.output or self.embeddings or self.patterns)
