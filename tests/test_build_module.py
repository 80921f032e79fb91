"""The extension module as it was built: what it shows to others and what it says of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from native.module import build_info_header, describe
from orin_llm import _native
from orin_llm.upstream import PIN

ROOT = Path(__file__).resolve().parent.parent

FACTS = {"version": "1.2.3", "native": True, "cuda": False, "why": "no nvcc was found"}


def test_only_the_entry_point_leaves_the_module() -> None:
    """So another ggml in the process (the stock package's, say) never meets ours."""
    command = ["nm", "--dynamic", "--defined-only", "--format=just-symbols", _native.__file__]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert symbols == ["PyInit__native"]


def test_the_module_says_what_was_built_and_why() -> None:
    facts = _native.build_info()
    assert facts["llama_cpp"] == f"{PIN.package} {PIN.version}"
    assert facts["upstream_commit"] == PIN.upstream_commit
    assert f'version = "{facts["version"]}"' in (ROOT / "pyproject.toml").read_text()
    assert facts["cpu_flags"]
    assert facts["why"]
    assert isinstance(facts["cuda"], bool)
    assert bool(facts["cuda_architectures"]) == facts["cuda"]


def test_importing_the_module_opens_no_device() -> None:
    script = (
        "import os; from orin_llm import _native;"
        " print([os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{fd}')])"
    )
    opened = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    assert opened.startswith("[")
    assert "nvidia" not in opened
    assert "nvhost" not in opened


def test_the_one_line_names_the_devices_and_the_reason() -> None:
    assert describe(FACTS) == "built orin_llm 1.2.3 for this CPU, CPU only: no nvcc was found"
    portable = {**FACTS, "native": False, "cuda": True, "why": "nvcc 12.6"}
    assert describe(portable).endswith("for a portable baseline, CPU and CUDA: nvcc 12.6")


def test_the_header_survives_quotes_in_the_facts() -> None:
    header = build_info_header({"compiler": 'c++ "12" (\\odd\\)'})
    assert r'"compiler": "c++ \"12\" (\\odd\\)"' in header
