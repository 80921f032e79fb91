"""Draws have the distribution of the weights, and repeat.

Chi-square tests at significance 0.001, with fixed seeds: a test passes always or never.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from sampling_float64 import NO_CHANGES, Changes, Rule, expected
from sampling_support import params, row

from orin_llm import _native
from orin_llm._native import SamplingWorkspace

N_DRAWS = 20_000
LOGITS = np.array([2.0, 1.7, 1.5, 1.5, 1.0, 0.3, 0.0, -0.4, -1.0, -2.0], np.float32)
RULES = {
    "plain": Rule(),
    "hot": Rule(temperature=2.0, top_k=8, min_p=0.2),
    "cold": Rule(temperature=0.7, top_p=0.9),
    "llama": Rule(temperature=1.7, top_p=0.8, order="llama"),
}
# Values that chi-square exceeds with probability 0.001, by degrees of freedom.
CRITICAL = {
    1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46, 7: 24.32, 8: 26.12, 9: 27.88,
    15: 37.70,
}  # fmt: skip

each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


def assert_distributed(draws: Sequence[int], probabilities: NDArray[np.float64]) -> None:
    counts = np.bincount(draws, minlength=len(probabilities))
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    wanted = probabilities[possible] * len(draws)
    chi_square = ((counts[possible] - wanted) ** 2 / wanted).sum()
    assert chi_square < CRITICAL[possible.sum() - 1]


def probabilities(rule: Rule, changes: Changes = NO_CHANGES) -> NDArray[np.float64]:
    weights = expected(LOGITS, rule, changes).weights
    return weights / weights.sum()


@each_rule
def test_seeds_draw_by_the_probabilities(rule: Rule) -> None:
    workspace = SamplingWorkspace(len(LOGITS))
    draws = [workspace.sample(row(LOGITS, rule, seed=seed)) for seed in range(N_DRAWS)]
    assert_distributed(draws, probabilities(rule))


@each_rule
def test_positions_draw_by_the_probabilities(rule: Rule) -> None:
    workspace, one = SamplingWorkspace(len(LOGITS)), row(LOGITS, rule, seed=2**63 + 5)
    draws = [workspace.sample(one, position=position) for position in range(N_DRAWS)]
    assert_distributed(draws, probabilities(rule))


def test_choices_draw_by_the_probabilities() -> None:
    workspace, one = SamplingWorkspace(len(LOGITS)), row(LOGITS, Rule(), seed=3)
    draws = [workspace.sample(one, position=9, choice=choice) for choice in range(N_DRAWS)]
    assert_distributed(draws, probabilities(Rule()))


@pytest.mark.parametrize("step", ["position", "choice", "seed"])
def test_neighbours_draw_independently(step: str) -> None:
    equal = np.zeros(4, np.float32)
    workspace = SamplingWorkspace(4)

    def draw(i: int) -> int:
        if step == "seed":
            return workspace.sample(row(equal, Rule(), seed=i))
        return workspace.sample(row(equal, Rule(), seed=1), **{step: i})

    draws = np.array([draw(i) for i in range(2 * N_DRAWS)])
    assert_distributed(draws[::2] * 4 + draws[1::2], np.full(16, 1 / 16))


def test_the_same_place_draws_the_same_token_on_any_workspace() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 1, 5000).astype(np.float32)
    used = SamplingWorkspace(9000)
    other = row(
        rng.normal(0, 1, 9000).astype(np.float32), Rule(0.5, 100), Changes([1, 2], {3: 1.0})
    )
    for position in range(200):
        mine = row(logits, Rule(), seed=77)
        fresh = SamplingWorkspace(5000).sample(mine, position=position, choice=2)
        used.sample(other, position=position)
        assert used.sample(mine, position=position, choice=2) == fresh


def test_tokens_are_the_same_on_every_machine() -> None:
    noise = np.arange(1000, dtype=np.uint64) * 2654435761 % 65536
    logits = (noise / 4096).astype(np.float32)
    changes = Changes([5, 5, 900, 377])
    workspace = SamplingWorkspace(1000)
    for rule, tokens in [
        (Rule(0.8, 40, 0.95, 0.05), [671, 326, 488, 467, 974, 629, 589, 772]),
        (
            Rule(0.8, 0, 0.95, 0.0, 1.1, 0.5, 0.25, "llama"),
            [690, 305, 488, 450, 955, 631, 551, 772],
        ),
        (Rule(2.5), [676, 296, 488, 450, 944, 631, 551, 776]),
    ]:
        one = row(logits, rule, changes, seed=2**63 + 12345)
        assert [workspace.sample(one, position=i, choice=1) for i in range(8)] == tokens


@pytest.mark.parametrize(
    "rule",
    [
        Rule(temperature=1.0),
        Rule(temperature=1.7, top_k=7, top_p=0.8, min_p=0.1, order="llama"),
        Rule(0.6, 0, 0.95, 0.05, 1.3, 0.2, 0.1, order="llama"),
    ],
    ids=["plain", "filters", "penalties"],
)
def test_llama_cpp_draws_by_the_probabilities_of_the_llama_order(rule: Rule) -> None:
    recent = [0, 3, 3, 9]
    chain = _native.testing.ChainProbe(
        params(rule, seed=11), penalty_window=16, n_vocab=len(LOGITS)
    )
    for token in recent:
        chain.see(token)
    draws = [chain.sample(LOGITS) for _ in range(N_DRAWS)]
    assert_distributed(draws, probabilities(rule, Changes(recent)))
    workspace = SamplingWorkspace(len(LOGITS))
    ours = row(LOGITS, rule, Changes(recent), seed=11)
    assert_distributed(
        [workspace.sample(ours, position=position) for position in range(N_DRAWS)],
        probabilities(rule, Changes(recent)),
    )
