"""Steps on a GPU: what is queued, what is captured, and that the text is the CPU's."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from completions import assert_nothing_is_left, finish, prompt, settle, start
from gguf_bytes import Tensor, tiny_llama
from gpu.conftest import HEADS_OF_64, OpenEngine
from gpu.emulated import OVERTAKING, EmulatedGpu
from greedy import GreedyText, text_of

from orin_llm.engine import Engine
from orin_llm.engine.config import HOOK_NAMES
from orin_llm.engine.state import load_state, save_state

IQ4_NL = 20  # for rows of 256 values and their multiples alone
TIE = 1e-2  # between the two likeliest log-probabilities


def write_all(engine: Engine, sizes: list[int], n: int = 6) -> list[tuple[int, ...]]:
    """Completions of prompts of these lengths, all at once."""
    started = [start(engine, prompt(size, size), n) for size in sizes]
    return [finish(completion) for completion in started]


def test_no_step_waits_for_the_gpu_to_bring_its_inputs(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model)
    emulated.reset_counters()
    write_all(engine, [20, 30, 40])
    counted = emulated.counters()
    assert counted.get("stream_synchronizes", 0) == 0
    assert counted.get("blocking_sets", 0) == counted.get("blocking_gets", 0) == 0
    uploads = engine.runner.upload_counters()
    assert uploads["copies"] >= 3 * uploads["steps"]
    assert uploads["fallbacks"] == 0


def test_memory_that_is_not_pinned_is_no_memory_for_uploads(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model)
    emulated.set_pinned_limit(0)
    write_all(engine, [20])
    uploads = engine.runner.upload_counters()
    assert uploads["pinned_bytes"] == uploads["copies"] == 0 < uploads["fallbacks"]


def test_stock_waits_for_each_input(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model, hooks="-uploads")
    emulated.reset_counters()
    write_all(engine, [20])
    counted = emulated.counters()
    steps = engine.stats()["steps"]["total"]
    assert counted["stream_synchronizes"] >= 3 * steps
    assert engine.runner.upload_counters()["copies"] == 0


def test_four_bytes_by_token_come_back_from_the_gpu(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model)
    emulated.reset_counters()
    texts = write_all(engine, [20, 30, 40])
    assert emulated.counters()["bytes_to_host"] == 4 * sum(map(len, texts))


def test_a_graph_is_captured_once_for_each_number_of_lanes(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model, max_batch=8)
    emulated.reset_counters()
    # Prompts of different lengths: a step with prompt tokens is never the one before.
    write_all(engine, [20], 8)
    assert emulated.counters()["graphs_captured"] == 1
    write_all(engine, [21, 31, 41], 8)  # 4 lanes, one of them idle
    write_all(engine, [22, 32], 8)
    assert emulated.counters()["graphs_captured"] == 3
    long = start(engine, prompt(1, 17), 60)  # others join and leave while its context grows
    for sizes in ([24], [25, 35, 45], [26, 36]):
        write_all(engine, sizes, 5)
    finish(long)
    for sizes in ([27], [28, 38], [29, 39, 49, 59]):
        write_all(engine, sizes, 5)
    assert emulated.counters()["graphs_captured"] == 3


def test_the_chunks_of_prompts_are_one_captured_graph_and_wait_for_nothing(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model, chunk_size=32)
    emulated.reset_counters()
    write_all(engine, [200], 3)
    assert emulated.counters()["graphs_captured"] == 2  # a whole chunk, a lane
    for size in (131, 210):  # the last chunk is another each time
        write_all(engine, [size], 3)
    counted = emulated.counters()
    assert counted["graphs_captured"] == 2
    assert counted.get("stream_synchronizes", 0) == 0


def test_without_lanes_each_number_of_sequences_is_captured_anew(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model, hooks="-lanes")
    emulated.reset_counters()
    for sizes in ([20, 30], [21, 31, 41], [22, 32]):
        write_all(engine, sizes, 8)
    assert emulated.counters()["graphs_captured"] >= 3  # more where one begins before the others


def assert_agrees(
    token_ids: tuple[int, ...], on_cpu: Engine, tokens: list[int], tie: float = TIE
) -> None:
    """The text is the CPU's, or first differs where two tokens are as likely there."""
    expected = text_of(start(on_cpu, tokens, len(token_ids), logprobs=2))
    text = GreedyText(list(token_ids), [math.inf] * len(token_ids))
    assert expected.agrees_with(text, tie), (expected, token_ids)


def test_texts_may_part_where_two_tokens_are_as_likely_and_nowhere_else(
    open_engine: OpenEngine, model: Path
) -> None:
    on_cpu, tokens = open_engine(model, gpu_layers=0), prompt(1, 20)
    written = text_of(start(on_cpu, tokens, 16, logprobs=2))
    narrowest, *_, widest = sorted(range(16), key=written.margins.__getitem__)
    tie = written.margins[narrowest]
    assert tie < written.margins[widest]

    def parted_at(place: int) -> tuple[int, ...]:
        return (*written.ids[:place], *(token + 1 for token in written.ids[place:]))

    assert_agrees(tuple(written.ids), on_cpu, tokens, 0.0)
    assert_agrees(parted_at(narrowest), on_cpu, tokens, tie)
    for place in range(16):
        if written.margins[place] > tie:
            with pytest.raises(AssertionError):
                assert_agrees(parted_at(place), on_cpu, tokens, tie)


def test_greedy_text_is_the_cpus(open_engine: OpenEngine, model: Path) -> None:
    on_gpu, on_cpu = (open_engine(model, gpu_layers=layers) for layers in (-1, 0))
    hooks = {**dict.fromkeys(HOOK_NAMES, "on"), "matrices": "unavailable"}  # for weights in F32
    assert on_gpu.backend["hooks"] == hooks
    assert on_cpu.runner.hooks == {"rope", "pages", "attention", "growth"}
    prompts = [prompt(seed, 10 + 9 * seed) for seed in range(5)]
    started = [start(on_gpu, tokens, 64) for tokens in prompts]
    for tokens, completion in zip(prompts, started, strict=True):
        assert_agrees(finish(completion), on_cpu, tokens)


@pytest.mark.parametrize("hooks", ["all", "-uploads", "-sampling"])
def test_it_does_not_matter_when_the_gpu_does_what_it_was_told(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path, hooks: str
) -> None:
    prompts = [prompt(seed, 20 + seed) for seed in range(4)]
    on_cpu = open_engine(model, gpu_layers=0)
    expected = [finish(start(on_cpu, tokens, 6)) for tokens in prompts]
    for schedule in range(2, 8):
        emulated.set_schedule(schedule)
        engine = open_engine(model, hooks=hooks, chunk_size=16, prefix_cache=False)
        started = []
        for tokens in prompts:  # steps with prompt tokens between those without
            started.append(start(engine, tokens, 6))
            next(started[-1])
        assert [finish(completion) for completion in started] == expected, schedule
        engine.close()


def test_a_step_waits_for_the_one_before_it_in_the_other_context(
    emulated: EmulatedGpu, open_engine: OpenEngine, model: Path
) -> None:
    engine = open_engine(model, prefix_cache=False)

    def write() -> list[tuple[int, ...]]:
        first = start(engine, prompt(1, 20), 12)
        next(first)  # the other's prompt comes between its steps
        second = start(engine, prompt(2, 9), 4)
        return [finish(first), finish(second)]

    emulated.set_schedule(0)
    expected = write()
    emulated.set_schedule(OVERTAKING)
    assert write() == expected


OF_STEPS = ("sampling", "uploads", "lanes")
OTHERS = [name for name in HOOK_NAMES if name not in OF_STEPS]
COMBINATIONS = [
    *(off for n in range(4) for off in combinations(OF_STEPS, n)),
    *((name,) for name in OTHERS),
    *((name, "sampling") for name in OTHERS),
]


@pytest.mark.parametrize("off", COMBINATIONS, ids=",".join)
def test_any_hooks_may_be_off(open_engine: OpenEngine, model: Path, off: tuple[str, ...]) -> None:
    on_cpu = open_engine(model, gpu_layers=0)
    engine = open_engine(model, hooks=",".join(f"-{name}" for name in off))
    for size, text in zip((20, 30, 40), write_all(engine, [20, 30, 40]), strict=True):
        assert_agrees(text, on_cpu, prompt(size, size))


def test_smollm2_writes_the_text_that_the_cpu_writes(
    open_engine: OpenEngine, smollm2: Path
) -> None:
    # The emulated GPU takes long for our products of so many weights: test_gpu_matrices.py.
    on_gpu, on_cpu = (
        open_engine(smollm2, gpu_layers=layers, hooks="-matrices") for layers in (-1, 0)
    )
    for text in ("The capital of France is", "1, 2, 3,"):
        tokens = on_gpu.tokenize(text)
        assert_agrees(finish(start(on_gpu, tokens, 12)), on_cpu, tokens)


def test_a_table_that_a_gpu_cannot_look_up_in_stays_on_the_cpu(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    shape = HEADS_OF_64
    size = (shape.n_embd, shape.n_vocab)
    rng = np.random.default_rng(1)
    blocks = np.zeros(shape.n_embd * shape.n_vocab // 32, [("scale", "<f2"), ("values", "u1", 16)])
    blocks["scale"] = rng.uniform(0.01, 0.02, blocks.size)
    blocks["values"] = rng.integers(0, 256, (blocks.size, 16))
    weights = rng.standard_normal(size).astype("<f4")
    tensors = {
        "token_embd.weight": Tensor("token_embd.weight", size, IQ4_NL, blocks.tobytes()),
        "output.weight": Tensor("output.weight", size, data=weights.tobytes()),
    }
    path = tmp_path / "table.gguf"
    path.write_bytes(tiny_llama(shape=shape, tensors=tensors).data)
    on_gpu, on_cpu = (open_engine(path, gpu_layers=layers) for layers in (-1, 0))
    assert on_gpu.runner.hooks == set(HOOK_NAMES) - {"sampling", "matrices"}
    assert "cannot look them up" in str(on_gpu.backend["note"])
    assert_agrees(finish(start(on_gpu, prompt(1, 20), 8)), on_cpu, prompt(1, 20))


def test_with_layers_on_the_cpu_completions_run_one_after_another(
    open_engine: OpenEngine, model: Path
) -> None:
    engine, on_cpu = (open_engine(model, gpu_layers=layers) for layers in (1, 0))
    assert not engine.is_paged
    assert engine.runner.hooks == set()
    assert "its layers are not all on one GPU (-ngl" in str(engine.backend["note"])
    for size, text in zip((20, 30), write_all(engine, [20, 30]), strict=True):
        assert_agrees(text, on_cpu, prompt(size, size))


def test_a_cancelled_completion_leaves_the_others_alone(
    open_engine: OpenEngine, model: Path
) -> None:
    engine, on_cpu = (open_engine(model, gpu_layers=layers) for layers in (-1, 0))
    kept = start(engine, prompt(1, 20), 20)
    dropped = start(engine, prompt(2, 30), 200)
    next(dropped)
    dropped.close()
    assert_agrees(finish(kept), on_cpu, prompt(1, 20))
    settle(engine)
    assert_nothing_is_left(engine)


def test_a_state_is_saved_from_the_gpu_and_restored_there(
    open_engine: OpenEngine, model: Path, tmp_path: Path
) -> None:
    tokens = prompt(3, 50)
    first = open_engine(model)
    text = finish(start(first, tokens, 8))
    assert save_state(first, tokens, tmp_path / "state") == 48
    second = open_engine(model)
    assert load_state(second, tmp_path / "state") == tuple(tokens[:48])
    again = start(second, tokens, 8)
    assert finish(again) == text
    assert again.result.cached_tokens == 48
