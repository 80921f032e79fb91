"""Loading the extension module `orin_llm._native`, and what to do where that fails."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from orin_llm.errors import DeviceUnavailable

_MODULE = "orin_llm._native"
_LIBRARY = re.compile(r"(lib[\w+-]+)\.so([.\d]*): ")  # how the loader's error begins
_CUDA_RUNTIME = ("libcudart", "libcublas", "libcublasLt")


def load_extension() -> ModuleType:
    """The extension module.

    Raises:
        DeviceUnavailable: it is not built or does not load; the message says what to do.
    """
    try:
        return importlib.import_module(_MODULE)
    except ModuleNotFoundError as error:
        if error.name != _MODULE:
            raise
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        raise DeviceUnavailable(
            f"the extension module {_MODULE} is not built for this {python}: build it with "
            "scripts/build.sh or `pip install .`"
        ) from None
    except ImportError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C while it began
            raise error.__cause__ from None
        raise DeviceUnavailable(_advice(str(error))) from None


def extension_file() -> Path | None:
    """The module's file, found without loading it; None if it is not built for this Python."""
    found = importlib.util.find_spec(_MODULE)
    return Path(found.origin) if found is not None and found.origin else None


def _advice(error: str) -> str:
    """What is wrong and what to do, from the loader's message."""
    match = _LIBRARY.match(error)
    library, version = match.groups() if match else ("", "")
    # On a Jetson the driver is libcuda and a set of libraries below it.
    if library == "libcuda" or library.startswith("libnvrm"):
        return (
            f"this build needs NVIDIA's driver, which is not found ({error}): run it where the "
            "driver is (a container is given the GPU with `--runtime nvidia` or `--gpus all`), or "
            "build for the CPU with `ORIN_LLM_CUDA=off scripts/build.sh`"
        )
    if library in _CUDA_RUNTIME:
        toolkit = f"CUDA {version.strip('.').split('.')[0]}".strip()
        return (
            f"this build needs the runtime libraries of {toolkit}, which are not found ({error}): "
            "install the packages cuda-cudart and libcublas of that version (on a Jetson: "
            "nvidia-jetpack), or name the folder that holds them in LD_LIBRARY_PATH"
        )
    return (
        f"the extension module {_MODULE} does not load ({error}): build it here with "
        "scripts/build.sh or `pip install .`"
    )
