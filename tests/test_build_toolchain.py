"""For which processor a build is, what it is keyed by, and what it says when a tool is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from native.cuda import CudaPlan
from native.errors import BuildError
from native.llama import LlamaBuild
from native.module import llama_build
from native.toolchain import PORTABLE_FLAGS, Toolchain, find_toolchain, jobs

NO_CUDA = CudaPlan(False, "not asked for")


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    monkeypatch.delenv("ORIN_LLM_NATIVE", raising=False)
    return find_toolchain()


def build(tools: Toolchain, cuda: CudaPlan = NO_CUDA) -> LlamaBuild:
    return llama_build(tools, cuda)


def test_the_portable_build_uses_no_instruction_that_the_baseline_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORIN_LLM_NATIVE", "off")
    portable = find_toolchain()
    assert not portable.native
    baseline = {
        "x86_64": {"sse4.2", "avx", "avx2", "fma", "f16c", "bmi2"},
        "aarch64": {"neon", "dotprod", "fp16"},
    }
    assert set(portable.cpu_flags) == baseline[portable.machine]


def test_the_portable_build_for_arm_is_for_the_cores_of_the_orin(tools: Toolchain) -> None:
    arm = replace(tools, machine="aarch64", native=False, arch_flags=PORTABLE_FLAGS["aarch64"])
    options = build(arm).options()
    assert options["GGML_NATIVE"] == "OFF"
    assert f"-march={options['GGML_CPU_ARM_ARCH']}" in arm.arch_flags
    assert "dotprod" in options["GGML_CPU_ARM_ARCH"]
    assert "fp16" in options["GGML_CPU_ARM_ARCH"]


def test_features_are_those_that_the_compiler_may_use(tools: Toolchain) -> None:
    orin = replace(
        tools,
        predefined="#define __ARM_NEON 1\n#define __ARM_FEATURE_DOTPROD 1\n#define __OTHER 2\n",
    )
    assert orin.cpu_flags == ("neon", "dotprod")


def test_whatever_changes_the_libraries_changes_the_key(tools: Toolchain, tmp_path: Path) -> None:
    base = build(tools)
    cuda = CudaPlan(True, "", "/usr/local/cuda/bin/nvcc", "12.6", "87-real")
    others = [
        build(replace(tools, native=False)),
        build(replace(tools, predefined=tools.predefined + "#define __NEW_FEATURE__ 1\n")),
        build(replace(tools, cc="/bin/echo")),  # another compiler
        build(replace(tools, cxx="/bin/echo")),
        build(tools, cuda),
        build(tools, replace(cuda, architectures="80-real")),
        build(tools, replace(cuda, version="12.8")),
        replace(base, pin=replace(base.pin, sha256="0" * 64)),
        replace(base, hook_include=tmp_path),
    ]
    keys = [base.key(), *(other.key() for other in others)]
    assert len(set(keys)) == len(keys)
    assert base.key() == build(tools).key()


@pytest.mark.parametrize("name", ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CUDAHOSTCXX"])
def test_what_nvcc_reads_from_its_environment_changes_the_key_of_a_build_with_cuda(
    tools: Toolchain, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cuda = CudaPlan(True, "", "/usr/local/cuda/bin/nvcc", "12.6", "87-real")
    monkeypatch.delenv(name, raising=False)
    without, cpu = build(tools, cuda).key(), build(tools).key()
    monkeypatch.setenv(name, "-ccbin=g++-12")
    assert build(tools, cuda).key() != without
    assert build(tools).key() == cpu


def test_what_changes_nothing_in_the_libraries_keeps_the_key(tools: Toolchain) -> None:
    elsewhere = replace(tools, cmake="/opt/cmake", ninja="/opt/ninja", ccache="/opt/ccache")
    assert build(elsewhere).key() == build(tools).key()


@pytest.mark.parametrize(("variable", "package"), [("CC", "gcc"), ("CXX", r"g\+\+")])
def test_a_missing_compiler_is_named_with_the_package_that_has_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, package: str
) -> None:
    monkeypatch.setenv(variable, "no-such-compiler")
    with pytest.raises(BuildError, match=f"no-such-compiler.*apt-get install {package}"):
        find_toolchain()


def test_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(BuildError, match="riscv64: expected x86_64 or aarch64"):
        find_toolchain()


def test_another_value_of_the_native_switch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORIN_LLM_NATIVE", "maybe")
    with pytest.raises(BuildError, match="ORIN_LLM_NATIVE=maybe: expected on, off"):
        find_toolchain()


def test_the_number_of_compilers_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", "3")
    assert jobs() == 3
    monkeypatch.delenv("CMAKE_BUILD_PARALLEL_LEVEL")
    assert jobs() >= 1
