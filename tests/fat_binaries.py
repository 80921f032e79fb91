"""ELF files with code for GPUs, as nvcc writes them, without nvcc."""

from __future__ import annotations

import struct
from pathlib import Path

CUBIN, PTX = 2, 1
EXACTLY_THIS, FAMILY = 1 << 20, 1 << 21


def container(*entries: tuple[int, int, int]) -> bytes:
    """A container of kind, architecture and flags of each entry."""
    body = b"".join(
        struct.pack("<HHIQ12xI8xI20x", kind, 0x101, 64, 16, architecture, flags) + bytes(16)
        for kind, architecture, flags in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(path: Path, section: bytes | None) -> Path:
    """An ELF file whose section .nv_fatbin holds this; None for one without the section."""
    names = b"\0.shstrtab\0.nv_fatbin\0"
    text = section or b""
    at_text, at_names = 64, 64 + len(text)
    at_table = at_names + len(names)
    sections = [(0, 0, 0), (1, at_names, len(names))]
    if section is not None:
        sections.append((11, at_text, len(text)))
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQ", 3, 183, 1, 0, 0)
    header += struct.pack("<QIHHHHHH", at_table, 0, 64, 0, 0, 64, len(sections), 1)
    table = b"".join(
        struct.pack("<IIQQQQ24x", name, 1, 0, 0, offset, size) for name, offset, size in sections
    )
    path.write_bytes(header + text + names + table)
    return path


def module_for(path: Path, *architectures: int) -> Path:
    """A module with binary code for these."""
    return elf(path, container(*((CUBIN, number, 17) for number in architectures)))
