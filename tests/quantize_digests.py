"""What our quantizers make of many rows, as digests: the same on every machine.

python tests/quantize_digests.py > tests/quantize_digests.json    where other bytes are wanted
"""

from __future__ import annotations

import json
from hashlib import blake2b

from quantize_rows import IMPORTANCES, KINDS, TYPES, importance, rows

from orin_llm._native import testing


def digest(name: str, kind: str) -> str:
    """Of the blocks of a type for rows of a kind, with each importance."""
    made = blake2b(digest_size=16)
    for weights in IMPORTANCES:
        blocks = testing.quantize_rows(name, rows(kind), importance(weights), stock=False)
        made.update(blocks.tobytes())
    return made.hexdigest()


if __name__ == "__main__":
    print(
        json.dumps({name: {kind: digest(name, kind) for kind in KINDS} for name in TYPES}, indent=1)
    )
