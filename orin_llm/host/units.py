"""Bytes and counts as people read them, and numbers as the kernel writes them."""

from __future__ import annotations


def size_text(size: float) -> str:
    """`1.2 GB`: decimal units, as disks and model hubs count."""
    for unit in ("B", "kB", "MB"):
        if abs(size) < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


def counted(count: float, what: str) -> str:
    """`1 answer`, `17 answers`, `0.5 requests`."""
    number = f"{count:g}" if isinstance(count, float) else f"{count}"
    return f"{number} {what}" if count == 1 else f"{number} {what}s"


def is_count(text: str) -> bool:
    """Whether the text is a whole number that a kernel or a driver would write."""
    return text.isdecimal() and len(text) <= 20
