"""An extension module that is missing or does not load: every way to it ends in one message."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from processes import CLI, environment, python, run

from native.toolchain import find_toolchain
from orin_llm import extension

ROOT = Path(__file__).resolve().parent.parent
MODULE = f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"

NOT_BUILT = ["is not built for this Python", "scripts/build.sh"]
NO_DRIVER = ["needs NVIDIA's driver", "--runtime nvidia", "ORIN_LLM_CUDA=off scripts/build.sh"]
NO_RUNTIME = ["runtime libraries of CUDA 99", "cuda-cudart", "LD_LIBRARY_PATH"]


# An editable installation would find the module of the checkout that it points to.
NO_EDITABLE = """
import sys
sys.meta_path = [f for f in sys.meta_path if getattr(f, "__name__", "") != "_EditableFinder"]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the package's Python part, the only one that is found."""
    (tmp_path / "sitecustomize.py").write_text(NO_EDITABLE)
    leave_out = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "orin_llm", tmp_path / "orin_llm", ignore=leave_out)
    return tmp_path


def link_module(checkout: Path, library: str) -> None:
    """An extension module that is linked with a library that is not there any more.

    PRECOND: no machine has this version of it.
    """
    cc = find_toolchain().cc
    source = checkout / "empty.c"
    source.write_text("")
    shared = [cc, "-shared", "-fPIC", str(source)]
    needed = str(checkout / library)
    subprocess.run([*shared, "-o", needed, f"-Wl,-soname,{library}"], check=True)
    target = str(checkout / "orin_llm" / MODULE)
    subprocess.run([*shared, "-o", target, "-Wl,--no-as-needed", needed], check=True)
    Path(needed).unlink()


def in_checkout(checkout: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    return run(command, cwd=checkout, env=environment(PYTHONPATH=str(checkout)))


def assert_refused(checkout: Path, says: list[str]) -> None:
    """`run`, `models show`, doctor and the Python API all say this."""
    (checkout / "some.gguf").touch()
    for arguments in (["run", "-m", "some.gguf", "-p", "hi"], ["models", "show", "some.gguf"]):
        done = in_checkout(checkout, [*CLI, *arguments])
        assert done.returncode == 4
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        assert all(part in done.stderr for part in says)
    message = done.stderr.removeprefix("error: ").strip()

    report = in_checkout(checkout, [*CLI, "doctor", "--json"])
    assert report.returncode == 4
    missing = [c["found"] for c in json.loads(report.stdout)["checks"] if c["level"] == "missing"]
    assert missing == [message]

    done = in_checkout(checkout, python("from orin_llm import Llama"))
    assert done.stderr.endswith(f"orin_llm.errors.DeviceUnavailable: {message}\n")


def test_a_module_that_is_not_built_names_the_build_script(checkout: Path) -> None:
    assert_refused(checkout, NOT_BUILT)


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("libcuda.so.99", NO_DRIVER),
        ("libnvrm_gpu.so.99", NO_DRIVER),
        ("libcudart.so.99", NO_RUNTIME),
        ("libcublasLt.so.99", NO_RUNTIME),
        ("libcudabra.so.99", ["does not load (libcudabra.so.99: ", "scripts/build.sh"]),
    ],
)
def test_a_library_that_is_missing_is_named_with_the_remedy(
    checkout: Path, library: str, says: list[str]
) -> None:
    link_module(checkout, library)
    assert_refused(checkout, [library, *says])


def test_a_module_that_is_no_library_is_built_again(checkout: Path) -> None:
    (checkout / "orin_llm" / MODULE).write_text("half a download")
    assert_refused(checkout, ["does not load", "scripts/build.sh"])


def test_ctrl_c_while_the_module_begins_stays_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()  # as pybind11 does

    monkeypatch.setattr(extension.importlib, "import_module", interrupted)
    with pytest.raises(KeyboardInterrupt):
        extension.load_extension()


def test_the_module_of_this_python_is_found_without_loading_it(checkout: Path) -> None:
    package = checkout / "orin_llm"
    program = "from orin_llm.extension import extension_file; print(extension_file())"
    (package / "_native.cpython-39-x86_64-linux-gnu.so").touch()
    assert in_checkout(checkout, python(program)).stdout == "None\n"
    (package / MODULE).write_text("half a download")
    assert in_checkout(checkout, python(program)).stdout == f"{package / MODULE}\n"
