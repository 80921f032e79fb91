"""Builds the extension with CUDA at the path that is the argument, under the emulated Python."""

from __future__ import annotations

import sys
from pathlib import Path

from native.cuda import plan_cuda
from native.module import build_variant, run_build


def build() -> None:
    """In a tree of its own, beside that of the module without CUDA."""
    build_variant("cuda", plan_cuda(), {}, Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(run_build(build))
