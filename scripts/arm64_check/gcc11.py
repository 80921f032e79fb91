"""The step that builds the module with the compiler of JetPack 6: no warning, the same vector code.

`python -m arm64_check.gcc11 TARGET` is the build, which the emulated Python runs.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path

from arm64_check.disassembly import check
from arm64_check.steps import WORK, CheckFailed, Emulated, Found
from native.cuda import plan_cuda
from native.module import build_variant, run_build

TARGET = WORK / "gcc11/_native.so"  # scripts/build.sh's stays as it is


def gcc11(machine: Emulated) -> Found:
    """Built, loaded, and its hot loops held to the rules of `disassembly`."""
    compilers = {"CC": f"{machine.tools}gcc-11", "CXX": f"{machine.tools}g++-11"}
    if missing := [name for name in compilers.values() if shutil.which(name) is None]:
        raise CheckFailed(
            f"{' and '.join(missing)} not found: apt-get install g++-11-aarch64-linux-gnu, which"
            " Debian 12 has"
        )
    arguments = ["-m", "arm64_check.gcc11", str(TARGET)]
    done = machine.run(arguments, env={**machine.building, **compilers})
    facts = json.loads(done.stdout)
    return {"compiler": facts["compiler"], **check(TARGET, machine.tools)}


def main() -> int:
    """Build with warnings as errors, load what was built and print what it tells of itself."""
    target = Path(sys.argv[1])
    options = {"CMAKE_COMPILE_WARNING_AS_ERROR": "ON"}
    if failed := run_build(lambda: build_variant("gcc11", plan_cuda(), options, target)):
        return failed
    loader = ExtensionFileLoader("_native", str(target))
    module = module_from_spec(ModuleSpec("_native", loader, origin=str(target)))
    loader.exec_module(module)
    print(json.dumps(module.build_info()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
