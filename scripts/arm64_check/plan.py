"""The steps, in the order in which they run."""

from __future__ import annotations

from arm64_check.build import module
from arm64_check.core import core
from arm64_check.cuda import cuda
from arm64_check.disassembly import disassembly
from arm64_check.gcc11 import gcc11
from arm64_check.glibc import glibc
from arm64_check.greedy import greedy
from arm64_check.instructions import instructions
from arm64_check.parity import parity
from arm64_check.resolve import resolve
from arm64_check.steps import Step
from arm64_check.stock import stock
from arm64_check.wheel import wheel

STEPS = [
    Step("module", "build the extension module with the board's flags", module),
    Step("core", "run the C++ programs of tests/core", core, needs_module=False),
    Step("wheel", "build a wheel, install it and have it answer", wheel),
    Step("disassembly", "hold hot loops to vector code of the board's processor", disassembly),
    Step("glibc", "hold what the module asks of libraries against JetPack 6", glibc),
    Step("gcc11", "build with the compiler of JetPack 6", gcc11, needs_module=False),
    Step("resolve", "let pip choose wheels for JetPack 6 and 7", resolve, needs_module=False),
    Step("stock", "hold an engine without hooks to unpatched llama.cpp", stock),
    Step("parity", "hold each hook to its reference", parity),
    Step("greedy", "write what this machine writes", greedy),
    Step("instructions", "count those of attention, ours and llama.cpp's", instructions),
    Step(
        "cuda",
        "link the extension with CUDA for the board: 1.3 GB to fetch, and an hour the first time",
        cuda,
        needs_module=False,
    ),
]
