"""What a load asks, and what it promises: prompts of words and of files, bounds of goodput."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from bench_support import failed, requests, run_of
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.bench.records import RequestRecord
from orin_llm.bench.serve.dataset import read_dataset
from orin_llm.bench.serve.goodput import Goodput
from orin_llm.bench.serve.prompts import WordCount, word_prompt
from orin_llm.engine import Engine
from orin_llm.errors import OrinError, UsageError


@given(st.lists(requests() | st.builds(failed), min_size=1, max_size=12),
       st.floats(1, 2000), st.floats(1, 500))  # fmt: skip
def test_goodput_counts_what_met_every_bound(
    records: list[RequestRecord], ttft: float, tpot: float
) -> None:
    goodput = Goodput.parse(f"ttft:{ttft},tpot:{tpot}")
    good = [
        r.token_ms[0] - r.submitted_ms <= ttft
        and (len(r.token_ms) < 2 or (r.finished_ms - r.token_ms[0]) / (len(r.token_ms) - 1) <= tpot)
        for r in records
        if not r.error
    ]
    found = goodput.figures(run_of(*records))
    seconds = max(r.finished_ms for r in records) - min(r.submitted_ms for r in records)
    assert found["goodput_share"] == sum(good) / len(records)
    assert found["goodput_per_s"] == pytest.approx(1000 * sum(good) / seconds)


@pytest.mark.parametrize("text", ["", "ttft", "ttft:", "ttft:x", "itl:5", "ttft:0", "ttft:-1",
                                  "ttft:nan", "ttft:inf", "ttft:1,ttft:2"])  # fmt: skip
def test_bounds_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--goodput has"):
        Goodput.parse(text)


def test_words_make_prompts_of_about_the_tokens_that_were_asked_for(engine: Engine) -> None:
    """By two prompts that were counted, with the tokenizer of a real model."""
    draw = random.Random(5)

    def tokens(words: int) -> int:
        return len(engine.tokenize(word_prompt(draw, words).messages[0]["content"]))

    count = WordCount.of((8, 264), (tokens(8), tokens(264)))
    for wanted in (32, 128, 512, 1500):
        assert tokens(count.words(wanted)) == pytest.approx(wanted, rel=0.05, abs=3)
        assert count.tokens(count.words(wanted)) == pytest.approx(wanted, abs=1)
    assert count.words(1) == 1
    assert WordCount.of((8, 40), (100, 100)) == WordCount(0, 1)  # a server that does not count


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", '"x"', "{}", '{"prompt": ""}', '{"prompt": 5}', '{"messages": []}',
     '{"messages": [{"role": "user"}]}', '{"prompt": "a", "messages": []}',
     '{"prompt": "a", "max_tokens": 0}', '{"prompt": "a", "max_tokens": true}', "[" * 99999],
)  # fmt: skip
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(('{"prompt": "good"}\n' if line else "") + line)
    with pytest.raises(UsageError, match="d.jsonl, line 2" if line else "has no prompts"):
        read_dataset(path)


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"GGUF\0\1\2\3")
    for path in (tmp_path, tmp_path / "none", tmp_path / "b"):
        with pytest.raises(OrinError):
            read_dataset(path)
