"""Decides whether the build has CUDA, for which GPU, and says why."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from native.architectures import (
    check_setting,
    choose_architectures,
    compiled_by_driver,
    in_words,
    is_jetson,
    usable,
    visible_gpus,
)
from native.errors import BuildError
from native.toolchain import read_switch
from native.toolkits import driver_version, find_toolkit


@dataclass(frozen=True)
class CudaPlan:
    """Whether CUDA is built, and the one sentence that says why."""

    enabled: bool
    why: str
    nvcc: str = ""
    version: str = ""
    architectures: str = ""  # as CMake takes them, such as 87-real
    vmm: bool = True  # llama.cpp's pool grows by CUDA's virtual memory, where the GPU has it
    idle_gpu: str = ""  # what this machine has, and a build for the CPU does not use


def plan_cuda() -> CudaPlan:
    """Read ORIN_LLM_CUDA (auto, on, off), _ARCH and _VMM (on, off); look at the machine.

    Raises:
        BuildError: a setting is wrong, or something is missing: under `on`, and under `auto` on a
            Jetson or where ORIN_LLM_CUDA_ARCH names a GPU. Else `auto` builds for the CPU then.
    """
    mode = read_switch("ORIN_LLM_CUDA", ("auto", "on", "off"), default="auto")
    vmm = read_switch("ORIN_LLM_CUDA_VMM", ("on", "off"), default="on") == "on"
    if mode == "off":
        return CudaPlan(False, "ORIN_LLM_CUDA=off")
    check_setting()
    visible: set[int] = set()
    try:
        visible = visible_gpus()
        return replace(_find_cuda(visible), vmm=vmm)
    except BuildError as missing:
        if mode == "on":
            raise BuildError(f"ORIN_LLM_CUDA=on, but {missing}") from None
        if named := os.environ.get("ORIN_LLM_CUDA_ARCH"):
            raise BuildError(f"ORIN_LLM_CUDA_ARCH={named}, but {missing}") from None
        if is_jetson():
            raise BuildError(
                f"this is a Jetson, but {missing}."
                " ORIN_LLM_CUDA=off builds for the CPU alone, which is many times slower"
            ) from None
        return CudaPlan(False, str(missing), idle_gpu=in_words(usable(visible)))


def _find_cuda(visible: set[int]) -> CudaPlan:
    architectures, chosen_by = choose_architectures(visible)
    elsewhere = bool(os.environ.get("ORIN_LLM_CUDA_ARCH")) and not is_jetson()
    toolkit = find_toolkit(
        architectures,
        driver="" if elsewhere else driver_version(),
        driver_compiles=compiled_by_driver(architectures),
    )
    why = f"nvcc {toolkit.version} at {toolkit.nvcc}, architecture {architectures} {chosen_by}"
    if toolkit.passed_over:
        why += f"; passed over: {'; '.join(toolkit.passed_over)}"
    return CudaPlan(True, why, toolkit.nvcc, toolkit.version, architectures)
