"""The kernels as a Python module, built by what builds it for their tests.

As a program, `python -m gpu_check.kernel_module ARCHITECTURE`, it builds for a GPU such as `90`, or
with `emulated` for tests/simt, and prints `module` and the variables that it needs.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from checking.checkout import ROOT, python
from gpu_check.machine import device_facts
from gpu_check.steps import Context


def kernel_module(context: Context) -> tuple[str, dict[str, str]]:
    """Build it; its path, and variables for the programs that load it. Raises StepFailed."""
    kind = "emulated"
    if context.on_gpu:
        kind = str(device_facts(context)["compute_cap"]).replace(".", "")
    built = json.loads(context.need(python("gpu_check.kernel_module", kind), "module").out)
    return built["module"], built["environ"]


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    build: Any = importlib.import_module("kernel_build")
    if sys.argv[1] == "emulated":
        module = build.build_emulated()
        preload = ":".join(build.sanitizer_libraries())
        environ = {**build.ENVIRONMENT, "LD_PRELOAD": preload}
    else:
        module, environ = build.build_cuda(sys.argv[1]), {}
    print(json.dumps({"module": str(module), "environ": environ}))


if __name__ == "__main__":
    main()
