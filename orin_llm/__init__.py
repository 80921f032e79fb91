"""Run, tune, serve and measure quantized language models on an NVIDIA Jetson AGX Orin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orin_llm.llama import Llama

__version__ = "0.1.0"

__all__ = ["Llama", "__version__"]


def __getattr__(name: str) -> object:
    """Load the native module only for who uses it: `orin-llm --help` must not wait for it.

    Raises:
        DeviceUnavailable: the native module is not built or does not load.
    """
    if name == "_native":  # `from orin_llm import _native` asks here before it imports
        from orin_llm.extension import load_extension

        return load_extension()
    if name == "Llama":
        from orin_llm.llama import Llama

        return Llama
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
