"""The step `cuda` of `scripts/arm64_check.sh`: what it holds the extension to, where the toolkit's
programs and the emulated Python are stand-ins that print what the real ones do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arm64_check import cuda as step
from arm64_check.cuda import require_no_gpu, stub_driver, use, with_toolkit
from arm64_check.device_code import (
    LLAMA_KERNELS,
    check,
    missing_kernels,
    other_code,
    our_kernels,
    wrong_path,
)
from arm64_check.steps import CheckFailed, Emulated

KERNELS = [*our_kernels(), *LLAMA_KERNELS]
ELF = "ELF file    1: _native.1.sm_87.cubin\nELF file    2: _native.2.sm_87.cubin\n"
NO_PTX = "cuobjdump info    : No PTX file found to extract from '_native.so'.\n"
DYNAMIC = """
 0x0000000000000001 (NEEDED)             Shared library: [libcudart.so.12]
 0x000000000000001d (RUNPATH)            Library runpath: [{libraries}]
"""


def functions(*kernels: str, architecture: str = "sm_87") -> str:
    """As `cuobjdump --list-text` prints them."""
    scope = "_GLOBAL__N__37_9_a_cu_4f3"  # of a file; a digit of its hash may stand before a length
    mangled = [
        f"_Z{len(name)}{name}PKf"
        if name in LLAMA_KERNELS
        else f"_ZN4orin{len(scope)}{scope}{len(name)}{name}ILi16EEEvi"
        for name in kernels
    ]
    return "".join(
        f"SASS text section {number} : x-{name}.{architecture}.elf.bin\n"
        for number, name in enumerate(mangled, 1)
    )


def test_code_for_the_board_alone_is_good() -> None:
    assert list(other_code(ELF + NO_PTX)) == []


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (NO_PTX, "expected code for sm_87, cuobjdump lists none"),
        (ELF.replace("sm_87", "sm_86"), "expected code for sm_87, cuobjdump lists none"),
        (f"{ELF}ELF file    3: _native.3.sm_86.cubin\n", "found code for sm_86"),
        (f"{ELF}PTX file    1: _native.1.sm_87.ptx\n", "found intermediate code for sm_87"),
    ],
)
def test_other_code_is_named(listed: str, problem: str) -> None:
    assert any(problem in said for said in other_code(listed))


def test_each_kernel_needs_an_instance() -> None:
    assert list(missing_kernels(functions(*KERNELS), KERNELS)) == []
    for kernel in KERNELS:
        others = functions(*(name for name in KERNELS if name != kernel))
        assert list(missing_kernels(others, KERNELS)) == [
            f"the kernel {kernel} is not in its code for sm_87"
        ]


def test_a_kernel_for_another_gpu_or_of_a_longer_name_does_not_count() -> None:
    assert list(missing_kernels(functions("feed_kernel", architecture="sm_86"), ["feed_kernel"]))
    assert list(missing_kernels(functions("my_feed_kernel"), ["feed_kernel"]))
    assert list(missing_kernels(functions("mul_mat_q_stream_k_fixup"), ["mul_mat_q"]))


@pytest.mark.parametrize(
    ("dynamic", "found"),
    [
        ("", "none"),
        (DYNAMIC.format(libraries="/usr/lib"), "/usr/lib"),
        (DYNAMIC.format(libraries="/cuda/lib64").replace("RUNPATH", "RPATH"), "none"),
    ],
)
def test_a_module_that_does_not_find_cudas_libraries_is_told(dynamic: str, found: str) -> None:
    assert list(wrong_path(dynamic, Path("/cuda/lib64"))) == [
        f"expected RUNPATH /cuda/lib64, found {found}"
    ]
    assert list(wrong_path(DYNAMIC.format(libraries="/cuda/lib64"), Path("/cuda/lib64"))) == []


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """Its cuobjdump lists a good module."""
    folder = tmp_path / "toolkit"
    (folder / "bin").mkdir(parents=True)
    texts = functions(*KERNELS, "affine_kernel")
    for option, text in (("elf", ELF), ("ptx", NO_PTX), ("text", texts)):
        (folder / f"--list-{option}").write_text(text)
    program(folder / "bin/cuobjdump", f'cat "{folder}/$1"; [ "$1" != --list-ptx ]')
    program(folder / "readelf", f"echo '{DYNAMIC.format(libraries=folder / 'lib64')}'")
    return folder


def program(path: Path, does: str) -> Path:
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return path


def test_what_a_module_holds_is_counted(toolkit: Path, tmp_path: Path) -> None:
    module = tmp_path / "_native.so"
    module.write_bytes(b"12345")
    assert check(module, toolkit, str(toolkit / "readelf")) == {
        "architecture": "sm_87",
        "cubins": 2,
        "kernels": len(KERNELS) + 1,
        "of ours": len(our_kernels()) + 1,
        "bytes": 5,
    }


def test_all_that_is_wrong_is_told_at_once(toolkit: Path, tmp_path: Path) -> None:
    (toolkit / "--list-elf").write_text(ELF.replace("sm_87", "sm_75"))
    (toolkit / "--list-text").write_text(functions(*KERNELS[1:]))
    program(toolkit / "readelf", "true")
    with pytest.raises(CheckFailed, match=rf"sm_75\n.*{KERNELS[0]} is not.*\n.*RUNPATH"):
        check(tmp_path / "_native.so", toolkit, str(toolkit / "readelf"))


def test_the_build_is_for_the_board_with_this_toolkit_and_its_compiler() -> None:
    assert with_toolkit(Path("/cuda"), "aarch64-linux-gnu-") == {
        "ORIN_LLM_CUDA": "on",
        "ORIN_LLM_CUDA_ARCH": "87-real",
        "CUDA_HOME": "/cuda",
        "CUDAHOSTCXX": "aarch64-linux-gnu-g++",
    }


NO_DRIVER = "error: this build needs NVIDIA's driver, which is not found (libcuda.so.1: …)"
GOOD = {
    "GPU": "built with CUDA, but no GPU is found: the CPU is used",
    "CUDA driver": "a stub",
}


def doctor(level: str = "warning", **found: str) -> str:
    checks = [{"check": name, "level": level, "found": text} for name, text in found.items()]
    return json.dumps({"checks": [*checks, {"check": "disk", "level": "hurts", "found": "slow"}]})


def emulated(
    folder: Path, *, status: int = 4, says: str = NO_DRIVER, arch: str = "87-real", tokens: int = 2
) -> Emulated:
    """Its Python says what the program does; without a driver it fails."""
    facts = {"cuda": True, "cuda_architectures": arch, "cuda_version": "12.4"}
    answer = {"completion_tokens": tokens, "text": "Because"}
    for name, text in (("facts", facts), ("answer", answer)):
        (folder / name).write_text(json.dumps(text))
    (folder / "doctor").write_text(doctor(**GOOD))
    python = program(
        folder / "python3",
        f'[ -e "$LD_LIBRARY_PATH/libcuda.so.1" ] || {{ echo "{says}" >&2; exit {status}; }}\n'
        f'case "$*" in -c*) cat {folder}/facts;; *doctor*) cat {folder}/doctor; exit 1;;'
        f" *) cat {folder}/answer;; esac",
    )
    return Emulated(folder, python, ("echo",), folder / "_native.so", "aarch64-linux-gnu-", {})


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(step, "run_program", lambda command: None)  # pulls the model
    library = tmp_path / "toolkit/lib64/stubs/libcuda.so"
    library.parent.mkdir(parents=True)
    library.touch()
    (tmp_path / "cuda").mkdir()
    return tmp_path / "toolkit"


def test_what_it_says_and_does_without_a_gpu_is_told(stubs: Path, tmp_path: Path) -> None:
    assert use(emulated(tmp_path), stubs, tmp_path / "cuda") == {
        "cuda": "12.4",
        "doctor": list(GOOD.values()),
        "answer": "Because",
    }


@pytest.mark.parametrize(
    ("machine", "problem"),
    [
        ({"status": 1}, "without a driver: expected exit status 4"),
        ({"says": "ImportError"}, "without a driver: .*found 4 and 'ImportError'"),
        ({"arch": "86-real"}, "expected a build with CUDA for 87-real"),
        ({"tokens": 3}, "expected 2 tokens of an answer"),
    ],
)
def test_what_is_not_as_a_user_needs_it_fails(
    stubs: Path, tmp_path: Path, machine: dict[str, object], problem: str
) -> None:
    with pytest.raises(CheckFailed, match=problem):
        use(emulated(tmp_path, **machine), stubs, tmp_path / "cuda")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (doctor("missing", build="it does not load"), "doctor says: it does not load"),
        (doctor("ok", **GOOD), "expected warnings of GPU and CUDA driver"),
        (doctor("warning", GPU="none"), "expected warnings of GPU and CUDA driver"),
    ],
)
def test_a_report_of_doctor_that_does_not_fit_fails(report: str, problem: str) -> None:
    with pytest.raises(CheckFailed, match=problem):
        require_no_gpu(report)


def test_the_library_to_link_with_stands_for_the_driver(stubs: Path, tmp_path: Path) -> None:
    folder = stub_driver(stubs, tmp_path / "driver")
    assert (folder / "libcuda.so.1").resolve() == stubs / "lib64/stubs/libcuda.so"
