"""The sampling rule gives the same bits on every machine: those of the digests beside this file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sampling_digests import SHAPES, digests

GOLDEN = json.loads(Path(__file__).with_name("sampling_digests.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("shape", SHAPES)
def test_candidates_weights_tokens_and_log_probabilities_are_the_same_everywhere(
    shape: str,
) -> None:
    assert digests(shape) == GOLDEN[shape]
