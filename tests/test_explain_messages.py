"""Messages in the fault guide: ours are printed by our own sources, others are listed here."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from orin_llm.explain.guide import read_guide
from orin_llm.explain.words import stems

ROOT = Path(__file__).parents[1]

# What other programs print: the kernel, CUDA, NVIDIA's tools, compilers, llama.cpp, jetson-stats.
FOREIGN = {
    "/dev/nvhost-… Permission denied",
    "*-throttle-alert", "thermal", "throttled due to over-current",
    "NvMapMemAllocInternalTagged: … error 12", "NvMapMemHandleAlloc: error 0",
    "cuMemAddressReserve", "cuMemCreate", "cuMemSetAccess", "out of memory", "cudaMalloc failed",
    "failed to allocate … buffer", "Out of memory: Killed process", "oom-kill", "Killed",
    "VRAM usage didn't recover", "no CUDA-capable device is detected",
    "CUDA driver version is insufficient", "operation not supported",
    "Segmentation fault", "Bus error", "Aborted (core dumped)", "GGML_ASSERT",
    "cannot open shared object file", "Connection refused", "Connect call failed",
    "Input/output error", "Is a directory",
    "no kernel image is available for execution on the device", "cublasSgemm",
    "CUBLAS_STATUS_ARCH_MISMATCH", "nvcc fatal", "Unsupported gpu architecture",
    "unsupported GNU version! gcc versions later than … are not supported",
    "c++: fatal error: Killed signal terminated program cc1plus", "Illegal instruction",
    "an illegal memory access was encountered", "fattn.cu", "flash attention",
    "quantized V cache requires flash_attn", "'utf-8' codec can't decode byte",
    "unknown model architecture", "Mismatch version jtop service: … and client: …",
    "The jtop.service is not active", "I can't access jtop.service", "NVMLError_NotSupported",
    "[N/A]", "Not Supported", "sudo: orin-llm: command not found", "No space left on device",
    "Permission denied", "Read-only file system",
}  # fmt: skip


def text_of(node: ast.expr) -> str:
    """A literal as it is printed; … where something is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "…"


@cache
def printed() -> str:
    """All texts of our own sources, words joined by blanks."""
    texts = []
    for folder in ("orin_llm", "scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts += [
                text_of(node)
                for node in ast.walk(tree)
                if isinstance(node, ast.JoinedStr | ast.Constant)
            ]
    for path in (ROOT / "cpp").rglob("*.cpp"):
        source = path.read_text(encoding="utf-8")
        # Literals that stand together, and what is put between them.
        source = re.sub(r'"\s*\n?\s*"', "", source)
        source = re.sub(r'"\s*\+.*?\+\s*"', "…", source, flags=re.DOTALL)
        texts += re.findall(r'"((?:[^"\\]|\\.)*)"', source)
    for path in (ROOT / "scripts").glob("*.sh"):
        lines = path.read_text(encoding="utf-8").splitlines()
        texts += [line for line in lines if not line.lstrip().startswith("#")]
    return "\n".join(" ".join(text.split()) for text in texts)


@pytest.mark.parametrize(
    "message", [m for entry in read_guide() for m in entry.messages if m not in FOREIGN]
)
def test_every_message_of_ours_is_one_that_we_print(message: str) -> None:
    for part in message.split("…"):
        assert part.strip(" ():,") in printed(), part


def test_messages_of_others_are_those_that_are_listed() -> None:
    assert {m for entry in read_guide() for m in entry.messages} >= FOREIGN


def test_every_message_has_a_word_that_says_something() -> None:
    for entry in read_guide():
        for message in entry.messages:
            assert stems(message), message
