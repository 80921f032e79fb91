"""What cannot be run is told before it is begun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orin_llm.bench.campaign import Campaign, measure
from orin_llm.bench.interference import Interference
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.shared_prefix import SharedPrefix
from orin_llm.engine import Engine, EngineConfig
from orin_llm.errors import UsageError


def test_what_has_no_room_is_told_before_anything_is_loaded(smollm2: Path) -> None:
    short = Interference(2, Lengths(8, 8), Lengths(40, 40), long_prompt=511, short_prompt=8)
    endless = SharedPrefix(2, 8000, Lengths(100, 100), Lengths(93, 93))  # one more than 8192
    half = replace(endless, system_tokens=4000)
    for config, scenario, complaint in (
        (EngineConfig(), short, "511 tokens fills no step of 512"),
        (EngineConfig(), endless, r"needs 8193 tokens.* trained for 8192: .*\(--system-tokens, -p"),
        (EngineConfig(kv_memory="100KiB"), half, "needs 4193 tokens.* of 100KiB holds 0: "),
        (EngineConfig(kv_memory="4096"), half, "4096 holds 4096"),
    ):
        campaign = Campaign(smollm2, (config,), (scenario,))
        with pytest.raises(UsageError, match=complaint):
            next(measure(campaign, lambda path, config: pytest.fail("loaded"), lambda line: None))


def test_a_chunk_that_is_cut_to_the_context_is_known_when_the_engine_is(smollm2: Path) -> None:
    long = Interference(1, Lengths(2, 2), Lengths(40, 40), long_prompt=199, short_prompt=1)
    campaign = Campaign(smollm2, (EngineConfig(threads=1, kv_memory="1024"),), (long,))
    with pytest.raises(UsageError, match="199 tokens fills no step of 200"):
        next(measure(campaign, Engine, lambda line: pytest.fail("run")))
