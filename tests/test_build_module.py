"""The extension module as it was built: what it shows to others and what it says of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from processes import python, run

from native.module import build_info_header, describe
from orin_llm import _native
from orin_llm.device.gpu import find_gpus
from orin_llm.upstream import PIN

ROOT = Path(__file__).resolve().parent.parent

FACTS = {"version": "1.2.3", "native": True, "cuda": False, "why": "no nvcc was found"}


def test_only_the_entry_point_leaves_the_module() -> None:
    """So another ggml in the process (the stock package's, say) never meets ours."""
    command = ["nm", "--dynamic", "--defined-only", "--format=just-symbols", _native.__file__]
    assert run(command).stdout.split() == ["PyInit__native"]


def test_the_module_says_what_was_built_and_why() -> None:
    facts = _native.build_info()
    assert facts["llama_cpp"] == f"{PIN.package} {PIN.version}"
    assert facts["upstream_commit"] == PIN.upstream_commit
    assert f'version = "{facts["version"]}"' in (ROOT / "pyproject.toml").read_text()
    assert facts["cpu_flags"]
    assert facts["why"]
    assert isinstance(facts["cuda"], bool)
    assert bool(facts["cuda_architectures"]) == facts["cuda"]


def imported_and_used(shown: str, *, gpu: bool) -> list[str]:
    """What an expression gives after the import, and after the first computation."""
    program = f"""
        import os
        from orin_llm import _native
        print({shown})
        _native.testing.run_affine(x=[1.0] * 5000, scale=1.0, bias=0.0, n_threads=2, gpu={gpu})
        print({shown})
    """
    done = run(python(program))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_importing_the_module_starts_no_threads() -> None:
    assert imported_and_used("len(os.listdir('/proc/self/task'))", gpu=False)[0] == "1"


@pytest.mark.skipif(
    not (_native.build_info()["cuda"] and find_gpus().usable), reason="no GPU that could be opened"
)
def test_importing_the_module_opens_no_gpu() -> None:
    files = "[os.path.realpath(f.path) for f in os.scandir('/proc/self/fd')]"
    imported, used = imported_and_used(files, gpu=True)
    assert "/dev/nv" not in imported
    assert "/dev/nv" in used


@pytest.mark.skipif(not _native.build_info()["cuda"], reason="a build for the CPU")
def test_cudas_libraries_are_found_without_being_told_to_the_loader() -> None:
    linked = run(["readelf", "--dynamic", "--wide", _native.__file__]).stdout
    folders = ":".join(re.findall(r"\(RUNPATH\).*\[(.+)\]", linked)).split(":")
    assert any(list(Path(folder).glob("libcudart.so.*")) for folder in folders), linked
    assert not [folder for folder in folders if Path(folder).name == "stubs"], linked


def test_the_one_line_names_the_devices_and_the_reason() -> None:
    assert describe(FACTS) == "built orin_llm 1.2.3 for this CPU, CPU only: no nvcc was found"
    portable = {**FACTS, "native": False, "cuda": True, "why": "nvcc 12.6"}
    assert describe(portable).endswith("for a portable baseline, CPU and CUDA: nvcc 12.6")


def test_the_header_survives_quotes_in_the_facts() -> None:
    header = build_info_header({"compiler": 'c++ "12" (\\odd\\)'})
    assert r'"compiler": "c++ \"12\" (\\odd\\)"' in header
