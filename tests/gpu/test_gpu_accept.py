"""On a GPU the delivery check counts what its kernels look up, and where pages lie there."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu.conftest import OpenEngine

from orin_llm.accept.measure import Bench
from orin_llm.accept.shapes import shapes_of
from orin_llm.accept.thresholds import read_thresholds
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import Sampler


class NoSensors:
    def read(self) -> Reading:
        return Reading(0.0)


@pytest.mark.parametrize("hooks", ["all", "-rope"])
def test_positions_are_counted_where_layers_read_a_table_on_the_gpu(
    open_engine: OpenEngine, small_model: Path, hooks: str
) -> None:
    engine = open_engine(small_model, n_ctx=96, hooks=hooks, max_batch=2)
    shapes = shapes_of({"rope": {"max_tokens": 4}}, read_thresholds().shapes)
    bench = Bench(engine, Sampler(NoSensors()), shapes, "no GPU")
    raw: dict[str, object] = {}
    found = bench.measure("rope", lambda done, total: None, raw)
    if hooks == "all":
        assert found.values == {"rope_out_of_bounds": 0}
        assert found.beside["layers_with_gpu_table"] > 0
    else:
        assert found.values == {}
        assert "hook is off" in found.unmeasured["rope_out_of_bounds"]
