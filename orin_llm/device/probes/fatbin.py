"""For which GPUs a module has binary code, by the headers of the code that nvcc put into it.

The section `.nv_fatbin` of the ELF file is a row of containers, each with an entry for each
architecture. NVIDIA does not document them; what is read here is the same in CUDA 11 to 13.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

_SECTION = b".nv_fatbin\0"
_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_ELF_SECTIONS = struct.Struct("<Q10xHHH")  # at 40: where they are, size of one, number, names'
_ELF_SECTION = struct.Struct("<IIQQQQ")  # name, type, flags, address, offset, size
_CONTAINER = struct.Struct("<IHHQ")  # magic number, version, size of this header, of the entries
_ENTRY = struct.Struct("<HHIQ12xI8xI")  # kind, …, size of this header, of the code; architecture
_MAGIC = 0xBA55ED50
_ALIGNMENT = 8
_CUBIN = 2  # a kind of entry; 1 is PTX
# Flags: for exactly this GPU, sm_90a; for its family, sm_100f.
_LETTERS = {1 << 20: "a", 1 << 21: "f"}


def read_architectures(module: Path) -> set[str] | None:
    """Such as `{"sm_87"}`; empty for a module without code for GPUs, None if it cannot be read."""
    try:
        with module.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as elf:
            return set(_cubins(elf, *_section(elf)))
    except (OSError, ValueError, IndexError, struct.error):  # an empty file; another format
        return None


def _section(elf: mmap.mmap) -> tuple[int, int]:
    """Where the section begins and ends; nowhere if there is none."""
    if elf[:6] != _ELF64_LITTLE_ENDIAN:
        raise ValueError("no 64-bit ELF file")
    table, size, count, names = _ELF_SECTIONS.unpack_from(elf, 40)
    at = [_ELF_SECTION.unpack_from(elf, table + size * n) for n in range(count)]
    text = at[names][4]
    for name, _, _, _, offset, length in at:
        if elf[text + name : text + name + len(_SECTION)] == _SECTION:
            return offset, offset + length
    return 0, 0


def _cubins(elf: mmap.mmap, begin: int, end: int) -> Iterator[str]:
    while begin < end:
        if elf[begin : begin + _ALIGNMENT] == bytes(_ALIGNMENT):  # between objects
            begin += _ALIGNMENT
            continue
        magic, _, header, size = _CONTAINER.unpack_from(elf, begin)
        if magic != _MAGIC or header < _CONTAINER.size:
            raise ValueError("no container where one should begin")
        entry = begin + header
        begin = entry + size
        if begin > end:
            raise ValueError("a container goes on behind the section")
        while entry < begin:
            kind, _, header, size, architecture, flags = _ENTRY.unpack_from(elf, entry)
            if header < _ENTRY.size:
                raise ValueError("no entry where one should begin")
            if kind == _CUBIN:
                letters = (letter for flag, letter in _LETTERS.items() if flags & flag)
                yield f"sm_{architecture}{''.join(letters)}"
            entry += header + size
