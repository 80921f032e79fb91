"""A custom op runs its own function on the CPU and is found by that function for CUDA."""

from __future__ import annotations

import numpy as np
import pytest

from orin_llm import _native

CUDA_NOT_SUPPORTED = 801


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [1, 7, 4096])
def test_a_custom_op_computes_every_element_on_the_cpu(n, n_threads):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    y = _native.testing.run_affine(x=x, scale=-1.5, bias=0.25, n_threads=n_threads)
    np.testing.assert_allclose(y, -1.5 * x.astype(np.float64) + 0.25, rtol=0, atol=1e-6)


def test_the_launcher_of_a_custom_op_is_found_by_its_function():
    x = np.arange(5, dtype=np.float32)
    report = _native.testing.probe_custom_dispatch(x=x, scale=2.0, bias=-1.0)
    assert report["supports_known"]
    assert report["launch_known"] == 0
    assert report["launched"] == [-1.0, 1.0, 3.0, 5.0, 7.0]


def test_nodes_without_a_fitting_launcher_are_left_to_the_cpu():
    report = _native.testing.probe_custom_dispatch(x=[1.0], scale=2.0, bias=0.0)
    assert not report["supports_other_type"]
    assert not report["supports_unknown"]
    assert not report["supports_other_op"]
    assert report["launch_unknown"] == CUDA_NOT_SUPPORTED


def test_a_second_launcher_for_the_same_op_is_refused():
    report = _native.testing.probe_custom_dispatch(x=[1.0], scale=2.0, bias=0.0)
    assert not report["second_launcher_fits"]


@pytest.mark.skipif(not _native.build_info()["cuda"], reason="this build has no CUDA")
def test_a_custom_op_runs_on_the_gpu():
    x = np.random.default_rng(1).standard_normal(100_003).astype(np.float32)
    try:
        y = _native.testing.run_affine(x=x, scale=-1.5, bias=0.25, gpu=True)
    except RuntimeError as error:
        if "expected a GPU" not in str(error):
            raise
        pytest.skip(str(error))
    np.testing.assert_allclose(y, -1.5 * x.astype(np.float64) + 0.25, rtol=0, atol=1e-6)
