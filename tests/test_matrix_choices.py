"""Choices follow from the device, and what is chosen by name replaces them."""

from __future__ import annotations

import gguf
import pytest
from weight_blocks import NAMES

from orin_llm import _native

testing = _native.testing
ORIN, SERVER = (87, 16), (90, 132)
F16, Q4_K, Q6_K = (NAMES.index(name) for name in ("f16", "q4_K", "q6_K"))


def test_few_multiprocessors_take_tensor_cores_sooner_and_ask_ahead_for_less() -> None:
    few, many = (testing.default_choices(*device) for device in (ORIN, SERVER))
    assert few["vector_rows"] == many["vector_rows"] == 0  # the kernel's own rule
    assert few["vector_tokens_q4_K"] < many["vector_tokens_q4_K"]
    assert few["prefetch_bytes"] < many["prefetch_bytes"]
    assert testing.default_choices(87, 14) == few  # the module with 32 GB


def test_what_is_chosen_replaces_the_default_and_nothing_else() -> None:
    defaults = testing.default_choices(*ORIN)
    chosen = testing.default_choices(*ORIN, {"vector_rows": 2, "vector_tokens_q6_K": 1})
    assert chosen == defaults | {"vector_rows": 2, "vector_tokens_q6_K": 1}


def test_a_type_of_weights_goes_before_all_of_them() -> None:
    chosen = testing.default_choices(*ORIN, {"vector_tokens_q4_K": 7, "vector_tokens": 3})
    assert {chosen[f"vector_tokens_{name}"] for name in NAMES if name != "q4_K"} == {3}
    assert chosen["vector_tokens_q4_K"] == 7


def test_defaults_are_values_that_can_be_chosen_and_every_choice_has_one() -> None:
    ranges = {choice["name"]: choice for choice in _native.kernel_choices()}
    for device in (ORIN, (86, 24), (80, 108), SERVER):
        defaults = testing.default_choices(*device)
        assert set(defaults) | {"vector_tokens"} == set(ranges)
        assert testing.default_choices(*device, defaults) == defaults


@pytest.mark.parametrize("chosen", [{"rows": 1}, {"vector_rows": 3}, {"product_splits": -1}])
def test_what_no_choice_can_be_is_refused(chosen: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        testing.default_choices(*ORIN, chosen)


def forms(chosen: dict[str, int], types: list[int], n_most: int) -> str:
    """Of 1 … n_most tokens, a letter each."""
    return "".join(testing.matrix_form(chosen, n, types)[0] for n in range(1, n_most + 1))


def test_a_launch_takes_the_form_that_its_tokens_and_weights_allow() -> None:
    chosen = {"vector_tokens": 4, "vector_tokens_q6_K": 1, "product_tokens": 3, "product_most": 6}
    assert forms(chosen, [Q4_K], 8) == "vvvvppss"
    assert forms(chosen, [Q4_K, Q6_K, Q4_K], 8) == "vsppppss"
    assert forms({**chosen, "vector_tokens": 0}, [F16], 8) == "ssppppss"
    assert forms({**chosen, "product_tokens": 0}, [Q4_K], 8) == "vvvvssss"
    assert forms({"vector_tokens": 1, "product_most": 0}, [Q4_K], 4) == "vppp"


TYPE = gguf.GGMLQuantizationType


@pytest.mark.parametrize("kind", [TYPE.Q4_K, TYPE.Q8_0, TYPE.IQ4_XS, TYPE.Q5_1])
def test_large_products_of_bounded_activations_are_left_to_cublas(kind: int) -> None:
    for name in ("norm", "weighted norm", "norm with bias", "rows of a norm"):
        assert testing.is_left_to_cublas(name, type=kind), name


def test_what_f16_may_not_hold_is_not_left_to_cublas() -> None:
    for name in ("gate", "activations", "norm plus activations"):
        assert not testing.is_left_to_cublas(name, type=TYPE.Q4_K), name


@pytest.mark.parametrize(
    "more",
    [
        {"type": TYPE.F16},
        {"type": TYPE.TQ1_0},  # which llama.cpp cannot decode to f16
        {"n_tokens": 63},
        {"least": 0},
        {"is_weight": False},
        {"wants_f32": True},
        {"n_rows": (256 << 20) // 256 + 1},
    ],
)
def test_other_products_are_not_left_to_cublas(more: dict[str, int]) -> None:
    assert not testing.is_left_to_cublas("norm", **{"type": TYPE.Q4_K, **more})
