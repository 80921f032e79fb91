"""Stock llama.cpp as a contender: it answers what is asked, and its absence is told."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_support import children
from processes import python, run

from orin_llm.bench import stock
from orin_llm.bench.device_use import device_use
from orin_llm.bench.lengths import Lengths
from orin_llm.bench.peer import Peer
from orin_llm.bench.stock import StockPeer
from orin_llm.bench.streams import Streams
from orin_llm.device.reading import Reading
from orin_llm.device.sampler import Sampler
from orin_llm.errors import DeviceUnavailable, OrinError

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "calibration" / "greedy_smollm2.json").read_text(encoding="utf-8")
)["texts"]
TIE = 0.1  # another batch sums in another order: a margin below it may break either way


@pytest.fixture(scope="module")
def peer(needs_stock: None, smollm2: Path) -> Iterator[StockPeer]:
    with StockPeer(smollm2, n_ctx=256, n_seq=4, chunk_size=48) as running:
        yield running


def test_batched_decode_writes_what_each_prompt_alone_does(peer: StockPeer) -> None:
    prompts = [text["prompt_tokens"] for text in GOLDEN[:4]]
    max_tokens = [6, 1, 9, 3]
    ids, token_ms = peer.serve(prompts, max_tokens)
    assert [len(answer) for answer in ids] == max_tokens
    assert [len(times) for times in token_ms] == max_tokens
    compared = 0
    for prompt, answer in zip(prompts, ids, strict=True):
        alone, margins = peer.greedy(prompt, len(answer))
        sure = next((i for i, margin in enumerate(margins) if margin < TIE), len(answer))
        assert answer[:sure] == alone[:sure]
        compared += sure
    assert compared >= 10


def test_all_unfinished_answers_get_a_token_in_the_same_step(peer: StockPeer) -> None:
    _, token_ms = peer.serve([[5] * 10, [6] * 80, [7] * 6], [5, 5, 3])
    first, second, third = token_ms
    # 96 tokens in chunks of 48: the third prompt is read with the end of the second one.
    assert first[0] < second[0] == third[0]
    assert first[1:] == second[1:]
    assert third == second[:3]


def test_those_that_still_run_have_the_first_sequence_ids(
    needs_stock: None, tiny_model: Path
) -> None:
    # In a process of its own: two builds of llama.cpp do not meet in one.
    program = f"""
        import sys
        sys.path.insert(0, {str(Path(stock.__file__).parent)!r})
        from stock_peer import Peer
        peer = Peer({str(tiny_model)!r}, 64, 8, 1, 5)
        steps = []
        decode = peer._decode
        peer._decode = lambda rows: (steps.append([row[2] for row in rows]), decode(rows))
        peer.serve([[5] * 3] * 5, [4, 1, 6, 3, 4], 0)
        print(steps[-5:])
    """
    done = run(python(program))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2], [0], [0]]


def test_what_lies_at_depth_is_not_timed_and_changes_no_answer(peer: StockPeer) -> None:
    prompts = [text["prompt_tokens"] for text in GOLDEN[:2]]
    whole, _ = peer.serve(prompts, [4, 4])
    assert peer.serve(prompts, [4, 4], depth=min(map(len, prompts)) - 1)[0] == whole


def test_a_run_has_the_workload_s_lengths(peer: StockPeer) -> None:
    workload = Streams(3, Lengths(4, 9), Lengths(2, 5), depth=16).build(1000, seed=1)
    records = peer.run(workload).requests
    wanted = workload.waves[0].submissions
    assert [record.output_tokens for record in records] == [one.max_tokens for one in wanted]
    assert [record.prompt_tokens for record in records] == [len(one.prompt) for one in wanted]
    for record in records:
        assert record.cached_tokens == 16
        assert record.token_ms[0] > record.submitted_ms and list(record.token_ms) == sorted(
            record.token_ms
        )
        assert record.finished_ms == record.token_ms[-1]


class Steady:
    """Sensors that always say the same."""

    def read(self) -> Reading:
        return Reading(time.monotonic() * 1000, power_w=20)


def test_a_run_has_readings_of_its_own_time(needs_stock: None, tiny_model: Path) -> None:
    workload = Streams(1, Lengths(9, 9), Lengths(5, 5)).build(32, seed=1)
    with (
        Sampler(Steady(), interval_ms=10) as sampler,
        StockPeer(tiny_model, n_ctx=32, sampler=sampler) as running,
    ):
        done = running.run(workload)
    (record,) = done.requests
    assert done.readings[0].at_ms <= record.submitted_ms
    assert done.readings[-1].at_ms >= record.finished_ms
    found = device_use([done])
    assert found is not None and found.whole.joules_per_token is not None
    assert found.whole.joules_per_token * 5 == pytest.approx(20 * record.e2el_ms / 1e3)


def test_the_last_words_of_a_peer_that_died_are_told(tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    program.write_text(
        "import os, sys\n"
        "print(sys.stdin.readline(), end='', flush=True)\n"
        "sys.stdin.readline()\n"
        "print('some more\\nGGML_ASSERT(x > 0) failed\\n', file=sys.stderr, flush=True)\n"
        "os.abort()\n"
    )
    with (
        Peer([str(program)], {"ready": True}) as peer,
        pytest.raises(OrinError, match=r"ended with status -6: GGML_ASSERT\(x > 0\) failed$"),
    ):
        peer.ask({})


def test_a_model_that_stock_cannot_load_is_an_error_that_says_so(
    needs_stock: None, tmp_path: Path
) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF")
    before = children(os.getpid())
    with pytest.raises(
        OrinError, match=r"stock peer failed: stock llama.cpp cannot load .*no.gguf"
    ):
        StockPeer(path, n_ctx=64)
    assert children(os.getpid()) == before


def test_every_sequence_has_the_whole_context(needs_stock: None, tiny_model: Path) -> None:
    with StockPeer(tiny_model, n_ctx=600, n_seq=2) as peer:
        ids, _ = peer.serve([[5] * 590, [6] * 590], [10, 10])
    assert [len(answer) for answer in ids] == [10, 10]


def test_without_the_extra_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, smollm2: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceUnavailable, match=r"pip install '\.\[stock\]'"):
        StockPeer(smollm2, n_ctx=64)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_stock_computes_on_the_cores_that_the_engine_has(
    needs_stock: None, tiny_model: Path
) -> None:
    core = max(os.sched_getaffinity(0))
    with StockPeer(tiny_model, n_ctx=64, threads=2, cpus=[core]) as running:
        running.greedy([1, 2, 3], 2)
        cores = [
            line.split()[1]
            for task in Path(f"/proc/{running._process.pid}/task").iterdir()
            for line in (task / "status").read_text().splitlines()
            if line.startswith("Cpus_allowed_list:")
        ]
        assert running.settings["cpus"] == str(core)
    assert cores.count(str(core)) == 2  # the rest is NumPy's, and idle


def test_stock_has_flash_attention_as_the_engine(needs_stock: None, tiny_model: Path) -> None:
    logits = {}
    for flash in ("auto", "on", "off"):
        with StockPeer(tiny_model, n_ctx=64, flash_attention=flash) as running:
            logits[flash] = running.top_logits(list(range(3, 35)), [31], 4)[0]["logits"]
    assert logits["auto"] == logits["on"] != logits["off"]
    assert logits["off"] == pytest.approx(logits["on"], abs=0.01)
