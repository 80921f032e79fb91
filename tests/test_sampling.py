"""Candidates and weights are those of the rule in float64, for any row and parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_float64 import Changes, Rule, adjusted
from sampling_support import Logits, assert_follows_the_rule, candidates, row

from orin_llm._native import SamplingWorkspace
from orin_llm.errors import OrinError, UsageError

rules = st.builds(
    Rule,
    temperature=st.one_of(st.sampled_from([0.5, 1.0, 2.0]), st.floats(0.1, 20)),
    top_k=st.one_of(st.sampled_from([0, 1, 2, 40, 1 << 30]), st.integers(0, 210)),
    top_p=st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1, width=32)),
    min_p=st.one_of(st.sampled_from([0.0, 0.05, 1.0]), st.floats(0, 1, width=32)),
    order=st.sampled_from(["orin", "llama"]),
)
penalized_rules = st.builds(
    lambda rule, repeat, frequency, presence: Rule(
        **{
            **vars(rule),
            "repeat_penalty": repeat,
            "frequency_penalty": frequency,
            "presence_penalty": presence,
        }
    ),
    rules,
    st.floats(0.5, 2, width=32),
    st.floats(-2, 2, width=32),
    st.floats(-2, 2, width=32),
)


@st.composite
def rows(draw: st.DrawFn) -> Logits:
    n_vocab = draw(st.integers(1, 200))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    spread = draw(st.sampled_from([1e-6, 0.1, 1.0, 4.0, 20.0]))
    shape = draw(st.sampled_from(["normal", "equal", "two", "rising", "peaked", "holes"]))
    logits = rng.normal(0, spread, n_vocab)
    if shape == "equal":
        logits[:] = spread
    elif shape == "two":
        logits = rng.integers(0, 2, n_vocab) * spread
    elif shape == "rising":
        logits = np.arange(n_vocab) * spread / n_vocab
    elif shape == "peaked":
        logits[rng.integers(n_vocab)] += 15
    elif shape == "holes":
        logits[rng.random(n_vocab) < 0.7] = -np.inf
        logits[rng.integers(n_vocab)] = 1.0
    return logits.astype(np.float32)


@settings(max_examples=400)
@given(rows(), rules)
def test_filters_keep_what_the_rule_keeps(logits: Logits, rule: Rule) -> None:
    assert_follows_the_rule(logits, rule)


@settings(max_examples=400)
@given(rows(), penalized_rules, st.data())
def test_penalties_bias_and_mask_change_the_logits_as_the_rule_says(
    logits: Logits, rule: Rule, data: st.DataObject
) -> None:
    tokens = st.integers(0, len(logits) - 1)
    changes = Changes(
        data.draw(st.lists(tokens, max_size=30)),
        data.draw(st.dictionaries(tokens, st.floats(-20, 20, width=32), max_size=4)),
        data.draw(st.none() | st.builds(random_mask, st.just(len(logits)), st.integers(0, 999))),
    )
    if np.isneginf(adjusted(logits, rule, changes)).all():
        with pytest.raises(OrinError, match="no token is left"):
            candidates(logits, rule, changes)
    else:
        assert_follows_the_rule(logits, rule, changes)


def random_mask(n_vocab: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random(n_vocab) < rng.choice([0.02, 0.5, 0.98])


# Rules at their edges


def spread_row(n_vocab: int = 100) -> Logits:
    return np.random.default_rng(1).normal(0, 2, n_vocab).astype(np.float32)


def test_top_k_of_zero_and_beyond_the_vocabulary_keep_all() -> None:
    logits = spread_row()
    for k in (0, 100, 101, (1 << 31) - 1):
        assert len(candidates(logits, Rule(top_k=k))[0]) == 100
    assert len(candidates(logits, Rule(top_k=99))[0]) == 99


def test_top_p_of_zero_keeps_the_likeliest_and_of_one_all() -> None:
    logits = spread_row()
    assert candidates(logits, Rule(top_p=0.0))[0] == [int(np.argmax(logits))]
    assert len(candidates(logits, Rule(top_p=1.0))[0]) == 100


def test_top_p_keeps_the_token_that_reaches_p_and_no_more() -> None:
    equal = np.zeros(4, np.float32)
    for p, kept in [(0.25, 1), (0.25 + 2**-20, 2), (0.5, 2), (0.75, 3), (0.9999, 4)]:
        assert candidates(equal, Rule(top_p=p))[0] == list(range(kept))


def test_top_p_sums_over_what_top_k_keeps() -> None:
    equal = np.zeros(8, np.float32)
    assert candidates(equal, Rule(top_k=4, top_p=0.5))[0] == [0, 1]


def test_min_p_of_one_keeps_those_as_likely_as_the_likeliest() -> None:
    logits = np.array([1, 3, 3, 2.999, -np.inf], np.float32)
    assert candidates(logits, Rule(min_p=1.0))[0] == [1, 2]
    assert candidates(logits, Rule(min_p=0.5))[0] == [1, 2, 3]


def test_ties_go_to_the_lower_id() -> None:
    logits = np.array([0, 5, 5, 5, 1], np.float32)
    assert candidates(logits, Rule(top_k=2))[0] == [1, 2]
    assert candidates(logits, Rule(temperature=0))[0] == [1]
    assert candidates(np.array([-0.0, 0.0], np.float32), Rule(top_k=1))[0] == [0]


@pytest.mark.parametrize("order", ["orin", "llama"])
def test_a_tiny_temperature_is_greedy_and_a_huge_one_uniform(order: str) -> None:
    logits = spread_row()
    top = int(np.argmax(logits))
    assert candidates(logits, Rule(temperature=1e-40, order=order))[0] == [top]
    ids, weights = candidates(logits, Rule(temperature=3e38, order=order))
    assert len(ids) == 100
    assert (weights == 1).all()


def test_orders_differ_in_the_temperature_that_filters_see() -> None:
    logits = np.log(np.array([0.6, 0.3, 0.1])).astype(np.float32)
    hot = Rule(temperature=10.0, top_p=0.6)
    assert candidates(logits, hot)[0] == [0, 1]  # the hot distribution is nearly flat
    ids, weights = candidates(logits, Rule(**{**vars(hot), "top_p": 0.89, "order": "llama"}))
    assert ids == [0, 1]
    assert weights[1] == pytest.approx(0.5**0.1, rel=1e-6)


def test_one_token_is_drawn_whatever_the_parameters() -> None:
    for logit in (-5.0, 0.0, 1e30):
        logits = np.array([logit], np.float32)
        for rule in (Rule(temperature=0), Rule(), Rule(top_k=3, top_p=0.1, min_p=1)):
            assert SamplingWorkspace(1).sample(row(logits, rule)) == 0


@pytest.mark.parametrize("shape", ["normal", "peaked", "equal", "rising"])
@pytest.mark.parametrize("order", ["orin", "llama"])
def test_a_vocabulary_of_256k_follows_the_rule(shape: str, order: str) -> None:
    n_vocab = 1 << 18
    rng = np.random.default_rng(2)
    logits = {
        "normal": rng.normal(0, 2, n_vocab),
        "peaked": rng.normal(0, 2, n_vocab) + 15 * (rng.random(n_vocab) < 1e-4),
        "equal": np.ones(n_vocab),
        "rising": np.arange(n_vocab) / 4096,
    }[shape].astype(np.float32)
    for rule in (
        Rule(0.8, 40, 0.95, 0.05, order=order),
        Rule(0.8, 0, 0.95, order=order),
        Rule(1.3, 50_000, 0.5, order=order),
        Rule(1.0, order=order),
    ):
        assert_follows_the_rule(logits, rule)


# Logits that cannot be


@pytest.mark.parametrize("place", [0, 500, 999])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
def test_a_logit_that_is_no_number_ends_in_an_error_that_names_it(place: int, bad: float) -> None:
    logits = spread_row(1000)
    logits[place] = bad
    for rule in (Rule(), Rule(temperature=0)):
        with pytest.raises(OrinError, match=f"not a number.*token {place} "):
            SamplingWorkspace(1000).sample(row(logits, rule))


def test_where_nothing_is_left_the_error_says_so() -> None:
    logits = spread_row()
    none = Changes(allowed=np.zeros(100, bool))
    banned = Changes(bias=dict.fromkeys(range(100), -np.inf))
    for changes in (none, banned):
        with pytest.raises(OrinError, match="no token is left"):
            SamplingWorkspace(100).sample(row(logits, Rule(temperature=0), changes))


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="dimensions"):
        row(np.zeros((2, 2), np.float32), Rule())
    with pytest.raises(UsageError, match="mask"):
        row(np.zeros(65, np.float32), Rule(), Changes(allowed=np.ones(64, bool)))
    with pytest.raises(UsageError, match="order"):
        row(np.zeros(2, np.float32), Rule(order="vllm"))
    with pytest.raises(UsageError, match="n_vocab"):
        SamplingWorkspace(3).sample(row(np.zeros(4, np.float32), Rule()))
    with pytest.raises(UsageError, match="outside the vocabulary"):
        SamplingWorkspace(4).sample(row(np.zeros(4, np.float32), Rule(), Changes(recent=[4])))


# Log-probabilities


@settings(max_examples=200)
@given(rows(), st.integers(0, 210), st.data())
def test_log_probabilities_are_those_of_the_raw_logits(
    logits: Logits, n: int, data: st.DataObject
) -> None:
    chosen = data.draw(st.integers(0, len(logits) - 1))
    top = SamplingWorkspace(len(logits)).top_logprobs(logits, n=n, chosen=chosen)
    with np.errstate(divide="ignore"):
        exact = logits.astype(np.float64) - logits.max()
        exact -= np.log(np.exp(exact).sum())
    order = np.lexsort((np.arange(len(logits)), -logits))[:n]
    assert [token for token, _ in top] == [*order, chosen]
    for token, logprob in top:
        assert logprob == pytest.approx(exact[token], rel=1e-6, abs=1e-6)
