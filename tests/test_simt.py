"""The emulation that kernels are tested in: it does what CUDA promises, and notices the rest."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.cuda.driver import compile_driver
from kernel_build import ENVIRONMENT, build_cuda, build_program
from kernel_calls import KernelFailed, Kernels


def run(program: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [program, *arguments],
        input=given,
        capture_output=True,
        env={**os.environ, **ENVIRONMENT},
        check=False,
    )


@pytest.mark.parametrize("program", ["semantics", "matrix_products"])
def test_kernels_get_what_cuda_promises_in_every_order_of_their_threads(program: str) -> None:
    done = run(build_program(program))
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("read", "use-after-poison"),
        ("write", "device memory that nothing is allocated or mapped at"),
        ("shared", "heap-buffer-overflow"),
        ("vector", "use-after-poison"),
        ("misaligned", "misaligned address"),
        ("shift", "shift exponent 32"),
        ("stack", "stack-overflow"),
    ],
)
def test_a_kernel_that_reaches_for_foreign_memory_is_ended(wrong: str, said: str) -> None:
    done = run(build_program("faulty_memory"), wrong)
    assert done.returncode != 0 and said in done.stderr.decode()


def test_the_same_kernels_with_memory_of_their_own_run_to_their_end() -> None:
    done = run(build_program("faulty_memory"), "none")
    assert done.returncode == 0, done.stderr.decode()


def test_halves_are_those_of_ieee() -> None:
    rng = random.Random(3)
    values = [rng.choice((-1, 1)) * 2.0 ** rng.uniform(-27, 17) for _ in range(5000)]
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].astype(np.float64)
    between = (finite[:-1] + finite[1:]) / 2  # ties
    given = np.array([*values, *between, np.inf, -np.inf, 65519.99, 65520, 0.0, -0.0], np.float64)
    lines = run(build_program("half_values"), given=given.tobytes()).stdout.decode().splitlines()

    told = np.array([float.fromhex(line) for line in lines[:65536]])
    np.testing.assert_array_equal(told, halves.astype(np.float64))

    with np.errstate(all="ignore"):
        rounded = given.astype(np.float16)
        before = np.concatenate([[np.float16(0)], rounded[:-1]])
        expected = np.stack([rounded, before + rounded, before * rounded], axis=1)
    found = np.array([[int(word) for word in line.split()] for line in lines[65536:]], np.uint16)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found[numbers], expected.view(np.uint16)[numbers])
    assert np.all(np.isnan(found.view(np.float16)[~numbers]))


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 300_000])
def test_a_kernel_gives_what_numpy_gives(kernels: Kernels, n: int) -> None:
    x = np.linspace(-4, 4, n, dtype=np.float32)
    np.testing.assert_allclose(
        kernels.affine(x=x, scale=0.5, bias=2.0), 0.5 * x.astype(np.float64) + 2.0, rtol=1e-7
    )


def test_after_a_call_that_failed_the_next_one_works(kernels: Kernels) -> None:
    with pytest.raises(KernelFailed, match="TypeError"):
        kernels.affine(x=np.ones(3, np.float32))
    assert kernels.affine(x=np.ones(3, np.float32), scale=1.0, bias=1.0).tolist() == [2, 2, 2]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_same_module_is_built_for_the_board(tmp_path: Path) -> None:
    """That it loads says that nothing of it is missing; what it computes needs a GPU."""
    driver = compile_driver(tmp_path) / "libcuda.so.1"
    module = build_cuda("87", f"-Xlinker={driver}")
    functions = "affine kv_gather logprobs paged_attention rope_store sample set_seed"
    done = run(
        Path(sys.executable),
        "-c",
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('orin_kernels', {str(module)!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        f"assert set({functions!r}.split()) <= set(dir(module))\n",
    )
    assert done.returncode == 0, done.stderr.decode()
