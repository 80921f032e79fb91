"""Layers whose RoPE and stores become one node are known by their graph."""

from __future__ import annotations

from typing import Any

import pytest
from rope_formula import IMROPE, MROPE, NEOX, NORM, VISION, Rope, llama3_factors
from rope_store_layer import layer

from orin_llm import _native

PLAIN = Rope(NORM, 64, 64)
ONES = [1.0] * 64


def misfit(rope: Rope, n_tokens: int = 3, **options: Any) -> str:
    return _native.testing.rope_store_misfit(layer(rope, **options), n_tokens)


@pytest.mark.parametrize("n_tokens", [1, 5])
@pytest.mark.parametrize(
    ("rope", "options"),
    [
        (PLAIN, {}),
        (Rope(NEOX, 128, 128, freq_base=1e6), {"n_head": 8, "n_head_kv": 2}),
        (Rope(NEOX, 32, 80), {}),
        (Rope(NORM, 128, 128, freq_base=5e5, freq_factors=llama3_factors(128, 5e5)), {}),
        (PLAIN, {"k_type": "q8_0", "v_type": "q4_0"}),
        (Rope(NORM, 128, 128), {"k_type": "q4_0", "v_type": "f16", "q_scale": 0.25}),
        (PLAIN, {"k_type": "bf16", "v_type": "q8_0", "head_dim_v": 128}),
        (PLAIN, {"q_scale": 0.125}),
        (PLAIN, {"twist": "one_projection"}),
        (PLAIN, {"twist": "one_projection", "v_type": "q8_0"}),
    ],
    ids=str,
)
def test_what_models_have_before_their_attention_fits(
    rope: Rope, options: dict[str, Any], n_tokens: int
) -> None:
    assert misfit(rope, n_tokens, **options) == ""


@pytest.mark.parametrize(
    ("normed", "twist", "inside"),
    [
        ("", "", (False, False)),
        ("qk", "", (True, True)),
        ("q", "", (True, False)),
        ("k", "one_projection", (False, True)),
        ("qk", "q_norm_read_twice", (False, True)),
        ("qk", "q_norm_by_head", (False, True)),
    ],
)
def test_norms_of_heads_become_part_of_it_where_they_can(
    normed: str, twist: str, inside: tuple[bool, bool]
) -> None:
    options = {f"{name}_norm": ONES for name in normed}
    if twist == "q_norm_by_head":
        options["q_norm"] = 2 * ONES
    made = layer(PLAIN, n_head=2, twist=twist, **options)
    assert _native.testing.rope_store_misfit(made, 3) == ""
    assert _native.testing.rope_store_norms(made) == inside


@pytest.mark.parametrize(
    ("twist", "why"),
    [
        ("k_read_twice", "is read elsewhere"),
        ("k_not_turned", "keys do not come from a plain RoPE"),
        ("q_not_turned", "queries do not come from a plain RoPE"),
        ("k_turns_differently", "turn differently"),
        ("k_normed_behind", "keys do not come from a plain RoPE"),
        ("stored_twice", "in several places"),
    ],
)
@pytest.mark.parametrize("k_type", ["f16", "q8_0"])
def test_a_layer_that_differs_is_left_as_it_is_and_says_why(
    twist: str, why: str, k_type: str
) -> None:
    assert why in misfit(PLAIN, twist=twist, k_type=k_type)


@pytest.mark.parametrize(
    "rope",
    [
        Rope(MROPE, 64, 64, sections=(8, 12, 12, 0)),
        Rope(IMROPE, 64, 64, sections=(12, 10, 10, 0)),
        Rope(VISION, 32, 64, sections=(16, 16, 16, 16)),
        Rope(NORM, 32, 64, n_offs=32),
    ],
)
def test_rope_by_several_positions_or_off_the_first_channels_does_not_fit(rope: Rope) -> None:
    assert "do not come from a plain RoPE" in misfit(rope)


def test_cells_that_later_layers_read_too_do_not_fit() -> None:
    assert "later layers" in misfit(PLAIN, n_readers=2)
