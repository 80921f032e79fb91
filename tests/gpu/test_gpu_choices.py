"""Choices of kernels reach a GPU's graphs, and the engine says which it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from completions import finish, prompt, start
from gpu.conftest import OpenEngine
from gpu.emulated import EmulatedGpu

from orin_llm import _native

ALL_STOCK = "vector_tokens=0,product_tokens=0"
LAYERS = 4  # of the small model; each has Q, K, V, O, gate and up, and down behind a gate


def test_an_engine_has_the_defaults_of_its_device_but_for_what_is_chosen(
    emulated: EmulatedGpu, open_engine: OpenEngine, small_model: Path
) -> None:
    defaults = _native.testing.default_choices(87, 16)  # what the emulated GPU says it is
    assert open_engine(small_model).backend["kernels"] == defaults
    chosen = open_engine(small_model, kernels="product_splits=3,vector_tokens=1")
    expected = _native.testing.default_choices(87, 16, {"product_splits": 3, "vector_tokens": 1})
    assert chosen.backend["kernels"] == chosen.describe()["config"]["kernels"] == expected


@pytest.mark.parametrize(
    "kernels, hooks, n_left",
    [
        # And the output matrix: memory is reserved for an output of each sequence.
        (f"{ALL_STOCK},cublas_tokens=16", "all", 6 * LAYERS + 1),
        (f"{ALL_STOCK},cublas_tokens=16", "-gather", 5 * LAYERS + 1),  # O: attention is ours
        (f"{ALL_STOCK},cublas_tokens=999", "all", 0),  # more than a step has
        (f"{ALL_STOCK},cublas_tokens=0", "all", 0),
        (f"{ALL_STOCK},cublas_tokens=16", "-matrices", 0),
    ],
)
def test_products_of_many_tokens_that_stay_stock_are_left_to_cublas(
    open_engine: OpenEngine, small_model: Path, kernels: str, hooks: str, n_left: int
) -> None:
    engine = open_engine(small_model, kernels=kernels, hooks=hooks, chunk_size=16, max_batch=16)
    backend = engine.backend
    state = "off" if hooks == "-matrices" else "unavailable"  # to our kernels nothing is left
    assert backend["hooks"]["matrices"] == state
    products = backend.get("products", {"ours": 0, "cublas": 0})
    assert (products["ours"], products["cublas"]) == (0, n_left)
    tokens = prompt(1, 40)
    on_cpu = open_engine(small_model, gpu_layers=0)
    assert finish(start(engine, tokens, 4)) == finish(start(on_cpu, tokens, 4))


@pytest.mark.parametrize("kernels", ["product_tokens=0", "vector_tokens=0"])
def test_products_count_as_ours_where_only_some_numbers_of_tokens_are(
    open_engine: OpenEngine, small_model: Path, kernels: str
) -> None:
    assert open_engine(small_model, kernels=kernels).backend["hooks"]["matrices"] == "on"


def test_choices_without_a_gpu_that_computes_in_pages_are_told_to_change_nothing(
    open_engine: OpenEngine, small_model: Path
) -> None:
    for options in ({"gpu_layers": 0}, {"hooks": "-pages"}):
        backend = open_engine(small_model, kernels="product_splits=1", **options).backend
        assert "choices of kernels change nothing" in backend["note"]
        assert "kernels" not in backend and "products" not in backend
        assert "note" not in open_engine(small_model, **options).backend
