"""Configuration is checked where it is made."""

from __future__ import annotations

import math

import pytest

from orin_llm.engine.config import EngineConfig, Hooks, SamplingParams
from orin_llm.errors import UsageError

ALL = {"rope", "pages", "attention"}


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
        ("-pages,-attention", {"rope"}),
        ("+rope", ALL),
    ],
)
def test_hooks_are_read_as_changes_to_the_default(text: str, enabled: set[str]) -> None:
    assert Hooks.parse(text).enabled == enabled


def test_an_unknown_hook_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'warp'.*known are rope, pages, attention"):
        Hooks.parse("-warp")
