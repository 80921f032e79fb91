"""Configuration is checked where it is made."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from orin_llm.engine import Request
from orin_llm.engine.config import EngineConfig, Hooks, SamplingParams
from orin_llm.errors import UsageError

ALL = {
    *("rope", "pages", "attention", "sampling", "uploads", "lanes"),
    *("gather", "matrices", "growth"),
}


@pytest.mark.parametrize(
    "field, value",
    [
        ("n_ctx", 1),
        ("n_ctx", -5),
        ("chunk_size", 0),
        ("threads", -1),
        ("gpu_layers", -2),
        ("gpu_layers", 1 << 31),
        ("kv_type", "f8"),
    ],
)
def test_engine_config_refuses_what_cannot_work(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=field):
        EngineConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "field, value",
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_k", 1 << 31),
        ("top_p", 1.1),
        ("min_p", -0.5),
        ("repeat_penalty", 0.0),
        ("frequency_penalty", math.inf),
        ("penalty_window", -2),
        ("seed", -1),
        ("seed", 1 << 64),
        ("order", "vllm"),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {1: math.inf}),
    ],
)
def test_sampling_params_refuse_what_cannot_work(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=field):
        SamplingParams(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text, enabled",
    [
        ("all", ALL),
        ("", ALL),
        ("none", set()),
        ("-rope", ALL - {"rope"}),
        ("-pages,-attention", ALL - {"pages", "attention"}),
        ("+rope", ALL),
    ],
)
def test_hooks_are_read_as_changes_to_the_default(text: str, enabled: set[str]) -> None:
    assert Hooks.parse(text).enabled == enabled


def test_an_unknown_hook_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'warp'.*known are rope, pages, attention"):
        Hooks.parse("-warp")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: EngineConfig(n_ctx="2048"), "n_ctx is '2048': expected a whole number"),
        (lambda: EngineConfig(n_ctx=True), "n_ctx is True: expected a whole number"),
        (lambda: EngineConfig(prefix_cache="no"), "prefix_cache is 'no': expected True or False"),
        (lambda: EngineConfig(publish=1), "publish is 1: expected True or False"),
        (lambda: EngineConfig(hooks=7), "hooks is 7: expected Hooks"),
        (lambda: EngineConfig(hooks="foo"), "unknown hook 'foo'"),
        (lambda: SamplingParams(temperature="hot"), "temperature is 'hot': expected a number"),
        (lambda: SamplingParams(seed=1.5), "seed is 1.5: expected a whole number or None"),
        (lambda: Request("hello"), "prompt_tokens is text: .* Engine.tokenize"),
        (lambda: Request([1], priority="high"), "priority is 'high': expected a whole number"),
        (lambda: Request([1], timeout_s="1"), "timeout_s is '1': expected a number or None"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_plain_forms_stand_for_what_they_mean() -> None:
    assert EngineConfig(hooks="none") == EngineConfig(hooks=Hooks.none())  # type: ignore[arg-type]
    assert Request([1], stop="5,").stop == ("5,",)  # type: ignore[arg-type]
    assert EngineConfig(n_ctx=np.int64(64)).n_ctx == 64  # type: ignore[arg-type]
    assert SamplingParams(temperature=1).temperature == 1
