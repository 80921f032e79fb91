"""Words that this program's own text is full of: as names they would tell nobody apart."""

from __future__ import annotations

import re
from pathlib import Path

# Names of systems, boards and roles that the documentation has not.
_COMMON = frozenset((
    "aarch64", "admin", "administrator", "arm", "arm64", "arm64-v8a", "daemon", "debian",
    "developer", "guest", "ip", "jenkins", "jetson-agx-orin", "jetson-orin", "job", "lab",
    "linux", "localdomain", "localhost", "mac", "maxn", "nano", "operator", "orin-agx", "runner",
    "serial", "ssid", "tegra-ubuntu", "tester", "ubuntu", "usb", "username", "uuid", "vm",
    "workstation", "x86_64",
))  # fmt: skip
_WORD = re.compile(r"(?<![^\W_])[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*(?![^\W_])")
_PART = re.compile("[a-z][a-z0-9]*")


def read_vocabulary(checkout: Path) -> frozenset[str]:
    """The words of the documentation that are written small: names of people are not."""
    found = set(_COMMON)
    for path in (checkout / "README.md", *checkout.glob("docs/**/*.md")):
        for word in _WORD.findall(path.read_text(errors="replace")):
            found.update([word, *_PART.findall(word)])
    return frozenset(found)
