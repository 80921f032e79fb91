"""Names of kernels as compilers write them for the linker (Itanium C++ ABI)."""

from __future__ import annotations

import re

_LENGTH = re.compile(r"L?(\d+)")  # L: of its file alone


def plain_name(mangled: str) -> str:
    """`affine_kernel` of `_ZN4orin13affine_kernelEv`; "" for what is no function's name.

    Names stand behind their lengths, namespaces first; arguments of templates and calls follow.
    """
    name, at = "", len("_ZN" if mangled.startswith("_ZN") else "_Z")
    while found := _LENGTH.match(mangled, at):
        at = found.end() + int(found[1])
        name = mangled[found.end() : at]
    return name
