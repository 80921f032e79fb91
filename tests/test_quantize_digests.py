"""Our quantizers give the same bytes on every machine: those of the digests beside this file.

On x86 they are ggml's own, which test_quantize_blocks.py shows.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from quantize_digests import digest
from quantize_rows import KINDS, TYPES

GOLDEN = json.loads(Path(__file__).with_name("quantize_digests.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TYPES)
def test_blocks_are_the_same_everywhere(name: str, kind: str) -> None:
    assert digest(name, kind) == GOLDEN[name][kind]
