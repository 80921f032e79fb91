"""Builds the extension module over an emulated GPU, for tests.

`python -m native.emulated` puts it below build/; docs/emulation.md says what it is.
"""

from __future__ import annotations

import sys

from native.cuda import CudaPlan
from native.module import EXTENSION_SUFFIX, ROOT, build_variant, run_build

TARGET = ROOT / "build" / "emulated_gpu" / f"_native{EXTENSION_SUFFIX}"


def build_emulated_module() -> None:
    """Build it where something has changed; BuildError or UpstreamError when it cannot be."""
    cuda = CudaPlan(False, "a GPU is emulated")
    build_variant("emulated", cuda, {"ORIN_EMULATED_GPU": "ON"}, TARGET)


if __name__ == "__main__":
    sys.exit(run_build(build_emulated_module))
