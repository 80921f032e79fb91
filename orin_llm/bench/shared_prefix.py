"""Requests that begin with the same system prompt, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from orin_llm.bench.lengths import Lengths
from orin_llm.bench.metrics import known
from orin_llm.bench.records import Run
from orin_llm.bench.workload import Prompts, Submission, Wave, Workload


@dataclass(frozen=True)
class SharedPrefix:
    """`requests` prompts of the same `system_tokens` tokens and tokens of their own."""

    requests: int
    system_tokens: int
    prompt: Lengths
    answer: Lengths

    @property
    def label(self) -> str:
        return f"shared-prefix ×{self.requests} s{self.system_tokens} p{self.prompt} n{self.answer}"

    @property
    def settings(self) -> dict[str, object]:
        return {
            "workload": "shared-prefix",
            "requests": self.requests,
            "system_tokens": self.system_tokens,
            "prompt_tokens": self.prompt.setting,
            "max_tokens": self.answer.setting,
        }

    @property
    def n_ctx(self) -> int:
        return self.system_tokens + self.prompt.high + self.answer.high

    @property
    def length_flags(self) -> str:
        return "--system-tokens, -p, -n"

    @property
    def n_seq(self) -> int:
        return 1

    def build(self, n_vocab: int, seed: int) -> Workload:
        prompts = Prompts(n_vocab, seed)
        system = prompts.draw(self.system_tokens)
        waves = [
            Wave(
                (
                    Submission(
                        "other" if number else "first",
                        system + prompts.draw(self.prompt.draw(prompts.random)),
                        self.answer.draw(prompts.random),
                    ),
                )
            )
            for number in range(self.requests)
        ]
        return Workload(tuple(waves))

    def figures(self, run: Run, chunk_size: int) -> dict[str, float]:
        """TTFT of the first request beside that of the others (their median).

        Raises OrinError where a request failed.
        """
        run.require_all_completed()
        others = run.completed("other")
        (first_ms,) = known([run.one("first").ttft_ms])
        others_ms = median(known([r.ttft_ms for r in others]))
        return {
            "first_ttft_ms": first_ms,
            "others_ttft_ms": others_ms,
            "others_over_first": others_ms / first_ms,
            "others_cached_tokens": median(r.cached_tokens for r in others),
        }
