"""What was linked is held to what was asked for, before it is put where it is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fat_binaries import CUBIN, EXACTLY_THIS, FAMILY, container, elf, module_for

from native import module as building
from native.cuda import CudaPlan
from native.device_code import check_device_code
from native.errors import BuildError


@pytest.fixture(autouse=True)
def no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's own headers tell."""
    monkeypatch.setattr("orin_llm.device.probes.cubins._FOLDER", "none")
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("asked", "has"),
    [
        ("87-real", (87,)),
        ("80-virtual;87-real", (87,)),
        ("87", (80, 87)),
        ("80-real;87-real", (80, 87)),
        ("87-virtual", ()),
    ],
)
def test_a_module_with_code_for_all_is_good(
    tmp_path: Path, asked: str, has: tuple[int, ...]
) -> None:
    check_device_code(module_for(tmp_path / "m.so", *has), asked)


@pytest.mark.parametrize(
    ("asked", "has", "said"),
    [
        ("87-real", (75,), "no code for sm_87, but for sm_75"),
        ("80-real;87-real", (80,), "no code for sm_87, but for sm_80"),
        ("8-real", (87,), "no code for sm_8,"),
        ("90a-real", (90,), "no code for sm_90a, but for sm_90"),
        ("87-real", (), "no code for sm_87, but for no GPU at all"),
    ],
)
def test_one_without_is_an_error_that_names_what_may_be_wrong(
    tmp_path: Path, asked: str, has: tuple[int, ...], said: str
) -> None:
    with pytest.raises(BuildError, match=f"{said}.*NVCC_APPEND_FLAGS.*remove {tmp_path}"):
        check_device_code(module_for(tmp_path / "m.so", *has), asked)


def test_code_with_the_features_of_exactly_that_gpu_counts(tmp_path: Path) -> None:
    path = elf(tmp_path / "m.so", container((CUBIN, 120, EXACTLY_THIS)))
    check_device_code(path, "120-real")


def test_code_for_a_family_counts_by_both_of_its_names(tmp_path: Path) -> None:
    check_device_code(elf(tmp_path / "m.so", container((CUBIN, 100, FAMILY))), "100f-real")
    check_device_code(module_for(tmp_path / "m.so", 100), "100f-real")  # as cuobjdump names it
    with pytest.raises(BuildError, match="no code for sm_100f, but for sm_100a"):
        path = elf(tmp_path / "m.so", container((CUBIN, 100, EXACTLY_THIS)))
        check_device_code(path, "100f-real")


def test_a_module_that_cannot_be_read_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "m.so").write_bytes(b"?")
    check_device_code(tmp_path / "m.so", "87-real")


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, CudaPlan], Path]:
    """Builds, where the compiler's result is a module with code for one architecture."""

    def run(has: int, cuda: CudaPlan) -> Path:
        def compile(tree: Path, *_: object) -> None:
            module_for(tree / f"_native{building.EXTENSION_SUFFIX}", has)

        monkeypatch.setattr(building, "ROOT", tmp_path)
        monkeypatch.setattr(building, "find_toolchain", lambda: None)
        monkeypatch.setattr(building, "ensure_llama", lambda _: tmp_path)
        monkeypatch.setattr(building, "llama_build", lambda *_: None)
        facts = {"version": "1", "native": True, "cuda": cuda.enabled, "why": cuda.why}
        monkeypatch.setattr(building, "build_facts", lambda *_: facts)
        monkeypatch.setattr(building, "_compile", compile)
        building.build_variant("native", cuda, {}, tmp_path / "out" / "_native.so")
        return tmp_path / "out" / "_native.so"

    return run


def test_a_build_for_the_wrong_gpu_replaces_nothing(
    tmp_path: Path, build: Callable[[int, CudaPlan], Path]
) -> None:
    cuda = CudaPlan(True, "it is here", "nvcc", "12.6", "87-real")
    assert build(87, cuda).exists()
    before = (tmp_path / "out" / "_native.so").read_bytes()
    with pytest.raises(BuildError, match="no code for sm_87, but for sm_75"):
        build(75, cuda)
    assert (tmp_path / "out" / "_native.so").read_bytes() == before


def test_the_last_line_of_a_build_is_the_warning(
    build: Callable[[int, CudaPlan], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    build(75, CudaPlan(False, "no nvcc was found", idle_gpu="8.9"))
    *_, built, warning = capsys.readouterr().err.splitlines()
    assert built.endswith("CPU only: no nvcc was found")
    assert re.match(r"WARNING: .* 8\.9\) stays idle.*scripts/build\.sh$", warning)
    build(75, CudaPlan(False, "no nvcc was found"))
    assert "WARNING" not in capsys.readouterr().err
