"""Which GPUs run code that was built for CMake's list of CUDA architectures, such as `87-real`."""

from __future__ import annotations

import re

_ARCHITECTURE = re.compile(r"(\d+)([a-z]?)(?:-(real|virtual))?")


def names(architectures: str) -> list[str]:
    """The architectures of a list."""
    return re.split(r"[;,\s]+", architectures.strip())


def intermediate(architectures: str) -> str:
    """Those of a list for which there is code that the driver can compile."""
    kept = [name for name in names(architectures) if not name.endswith("-real")]
    return ";".join(f"{name.removesuffix('-virtual')}-virtual" for name in kept)


def binary(architectures: str) -> str:
    """Those of a list for which there is code that a GPU runs as it is."""
    kept = [name for name in names(architectures) if not name.endswith("-virtual")]
    return ";".join(f"{name.removesuffix('-real')}-real" for name in kept)


def parse(architecture: str) -> tuple[int, str, str] | None:
    """Number, letter and kind (`real`, `virtual`, "" for both) of one; None if it is none."""
    match = _ARCHITECTURE.fullmatch(architecture)
    return (int(match[1]), match[2], match[3] or "") if match else None


def runs_on(architectures: str, compute_capability: str, *, integrated: bool = False) -> bool:
    """Can a GPU run code built for a list of architectures, such as `80-virtual;87-real`?

    Binary code (`-real`, or without suffix) runs on the same major version, from its minor version
    on; intermediate code (`-virtual`, or without suffix) on anything as new or newer. Of
    architectures with a letter, those of a family (`100f`) run on the same major version from their
    minor version on, others (`90a`) on exactly theirs. So does binary code on an integrated GPU:
    NVIDIA promises nothing between Tegra and other GPUs of a major version.
    """
    major, _, minor = compute_capability.partition(".")
    gpu = int(major) * 10 + int(minor or 0)
    for item in names(architectures):
        parsed = parse(item)
        if parsed is None:
            continue
        built, letter, kind = parsed
        if built == gpu and (letter or kind != "virtual"):
            return True
        same_major = built // 10 == gpu // 10 and built < gpu
        if same_major and not integrated and (letter == "f" or (not letter and kind != "virtual")):
            return True
        if not letter and kind != "real" and built <= gpu:
            return True
    return architectures.strip() in ("native", "all", "all-major")
