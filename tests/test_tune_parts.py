"""What searches are made of: spaces, predictions, ratios of pairs."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tune_support import SMALL, measured

from orin_llm.engine import EngineConfig
from orin_llm.errors import UsageError
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.pairs import ratio_of
from orin_llm.tune.screen import neighbours, predictions, star


def test_a_space_leaves_out_what_is_not_allowed() -> None:
    space = Space(SMALL.knobs, lambda c: c["page_size"] == 16 or c["chunk_size"] == 512)
    assert len(list(space.candidates())) == 4 and space.combinations == 6
    assert space.default in list(space.candidates())


def test_settings_are_fields_of_the_engine_and_texts_of_kernels_are_joined() -> None:
    space = Space(
        (
            Knob("chunk_size", (256, 512), 512),
            Knob("path", ("", "product_tokens=0"), "", "kernels"),
            Knob("vector", ("", "vector_tokens=2"), "", "kernels"),
        )
    )
    assert space.settings(space.default) == {"chunk_size": 512}
    chosen = space.default.having("path", "product_tokens=0").having("vector", "vector_tokens=2")
    assert space.settings(chosen)["kernels"] == "product_tokens=0,vector_tokens=2"
    config = space.config(chosen, EngineConfig(threads=3))
    assert config.threads == 3 and config.kernels.chosen["vector_tokens"] == 2


def test_a_knob_the_engine_has_not_is_a_clear_error() -> None:
    space = Space((Knob("speed", (1, 2), 1),))
    with pytest.raises(UsageError, match="the engine cannot be set like this"):
        space.config(space.default, EngineConfig())
    with pytest.raises(UsageError, match="speed has no value 3, its default"):
        Knob("speed", (1, 2), 3)


def test_the_star_has_every_other_value_once_and_the_nearest_first() -> None:
    found = list(star(SMALL))
    assert [dict(c) for c in found] == [
        {"chunk_size": 256, "page_size": 16},
        {"chunk_size": 128, "page_size": 16},
        {"chunk_size": 512, "page_size": 32},
    ]
    near = neighbours(SMALL, Candidate.of({"chunk_size": 256, "page_size": 32}))
    assert {tuple(c.values()) for c in near} == {(128, 32), (512, 32), (256, 16)}


@given(st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3))
def test_predictions_add_up_the_effects_of_values(effects: list[float]) -> None:
    known = {SMALL.default: 0.0, **dict(zip(star(SMALL), effects, strict=True))}
    both = Candidate.of({"chunk_size": 256, "page_size": 32})
    (predicted,) = predictions(SMALL, known, [both])
    assert predicted == pytest.approx(effects[0] + effects[2], abs=2e-3)


@settings(max_examples=30)
@given(st.floats(-0.3, 0.3), st.integers(2, 30), st.integers(0, 1000))
def test_a_ratios_interval_is_that_of_the_logs_and_a_far_pair_is_left_out(
    shift: float, n: int, seed: int
) -> None:
    chance = random.Random(seed)
    logs = [shift + chance.gauss(0, 0.02) for _ in range(n)]
    ratio = ratio_of(logs)
    assert ratio is not None and ratio.low is not None and ratio.high is not None
    assert ratio.low <= ratio.value <= ratio.high
    if n >= 10:
        with_far = ratio_of([*logs, shift + 3.0])
        assert with_far is not None and with_far.outliers >= 1
        assert with_far.value == pytest.approx(math.exp(shift), rel=0.05)


def test_one_pair_has_no_interval() -> None:
    ratio = ratio_of([0.1])
    assert ratio is not None and ratio.low is None
    assert ratio.is_open and not ratio.is_below_one and ratio_of([]) is None
    assert measured().samples[0].ttft_ms == {512: 100.0}
