"""Saved states of a real model: an answer goes on as if nothing had been saved and loaded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from gguf_bytes import tiny_llama_bytes

from orin_llm.engine import Engine, EngineConfig, Hooks, Request, Result, SamplingParams
from orin_llm.engine.state import load_state, save_state
from orin_llm.errors import OrinError, StateFileError

PROMPT = "Once upon a time there was a small robot who lived alone in a green forest. " * 6
GREEDY = SamplingParams(temperature=0)


def answer(engine: Engine, tokens: list[int], n: int = 12) -> Result:
    completion = engine.complete(Request(tokens, GREEDY, n))
    list(completion)
    return completion.result


@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "q8_0:q4_0"])
def test_a_restored_conversation_goes_on_as_if_it_had_never_ended(
    smollm2: Path, tmp_path: Path, kv_type: str
) -> None:
    path = tmp_path / "robot.kv"
    config = EngineConfig(n_ctx=512, threads=1, kv_type=kv_type)
    with Engine(smollm2, config) as engine:
        tokens = engine.tokenize(PROMPT)
        known = [*tokens, *answer(engine, tokens).token_ids]
        question = [*known, *engine.tokenize(" And then")]
        expected = answer(engine, question)
        n_saved = save_state(engine, known, path)
        assert n_saved == (len(known) - 1) // 16 * 16  # the last token was never computed
        assert expected.cached_tokens == n_saved
        assert path.stat().st_size == 1024 + n_saved * (engine.kv_row_bytes + 4) + 32
        rows = engine.read_kv(known, 0, len(known))
    with Engine(smollm2, config) as engine:
        assert load_state(engine, path) == tuple(known[:n_saved])
        result = answer(engine, question)
        assert result.cached_tokens == n_saved
        assert (result.text, result.token_ids) == (expected.text, expected.token_ids)
        assert load_state(engine, path) == tuple(known[:n_saved])  # what is there stays there
    with Engine(
        smollm2, EngineConfig(n_ctx=512, threads=1, kv_type=kv_type, page_size=32)
    ) as engine:
        n_whole = n_saved // 32 * 32
        assert load_state(engine, path) == tuple(known[:n_whole])
        assert engine.read_kv(known, 0, len(known)) == rows[: n_whole * engine.kv_row_bytes]
        assert answer(engine, question).cached_tokens == n_whole


@pytest.fixture
def tiny(tiny_model: Path) -> Iterator[Engine]:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, page_size=8)) as engine:
        yield engine


def tokens_of(engine: Engine, n: int) -> list[int]:
    return [3 + place * 7 % (engine.n_vocab - 3) for place in range(n)]


def test_a_refused_file_leaves_cache_and_engine_as_they_were(tiny: Engine, tmp_path: Path) -> None:
    tokens = tokens_of(tiny, 60)
    answer(tiny, tokens, 4)
    path = tmp_path / "s.kv"
    assert save_state(tiny, tokens, path) == 56
    tiny.forget()
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    with pytest.raises(StateFileError, match="do not match its checksum"):
        load_state(tiny, path)
    assert tiny.stats()["kv"]["pages_cached"] == 0
    assert answer(tiny, tokens, 4).cached_tokens == 0


def test_a_state_of_a_fine_tuned_model_is_refused(tiny: Engine, tmp_path: Path) -> None:
    answer(tiny, tokens_of(tiny, 60), 4)
    assert save_state(tiny, tokens_of(tiny, 60), tmp_path / "s.kv") == 56
    data = bytearray(tiny_llama_bytes())
    data[tiny.header.tensors[-1].offset] ^= 1
    (tmp_path / "tuned.gguf").write_bytes(data)
    config = EngineConfig(n_ctx=256, threads=1, page_size=8)
    with (
        Engine(tmp_path / "tuned.gguf", config) as tuned,
        pytest.raises(StateFileError, match="saved from another model"),
    ):
        load_state(tuned, tmp_path / "s.kv")


@pytest.mark.parametrize(
    "config, reason",
    [
        (EngineConfig(n_ctx=256, threads=1, hooks=Hooks.none()), "keeps no pages"),
        (EngineConfig(n_ctx=256, threads=1, prefix_cache=False), "--no-prefix-cache"),
        (EngineConfig(n_ctx=256, threads=1, kv_type="bf16"), "of type f16, this one is of type"),
        (EngineConfig(n_ctx=256, threads=1, kv_type="f16:bf16"), "of type f16, this one .* f16:bf"),
        (EngineConfig(n_ctx=32, threads=1), "holds 56 tokens, the context 32"),
    ],
)
def test_an_engine_that_a_state_does_not_fit_says_what_it_would_need(
    tiny: Engine, tiny_model: Path, tmp_path: Path, config: EngineConfig, reason: str
) -> None:
    answer(tiny, tokens_of(tiny, 60), 4)
    save_state(tiny, tokens_of(tiny, 60), tmp_path / "s.kv")
    with Engine(tiny_model, config) as other, pytest.raises(StateFileError, match=reason):
        load_state(other, tmp_path / "s.kv")


def test_a_closed_engine_neither_saves_nor_loads(tiny_model: Path, tmp_path: Path) -> None:
    engine = Engine(tiny_model, EngineConfig(n_ctx=256, threads=1))
    engine.close()
    with pytest.raises(OrinError, match="is closed"):
        save_state(engine, [1, 2, 3], tmp_path / "s.kv")
    with pytest.raises(OrinError, match="is closed"):
        load_state(engine, tmp_path / "s.kv")


def test_states_are_saved_and_loaded_while_others_are_answered(
    tiny: Engine, tmp_path: Path
) -> None:
    """Answers are those of an engine at rest, and no page is lost."""
    prompts = [tokens_of(tiny, n) for n in (100, 70, 40)]
    expected = [answer(tiny, prompt, 60).token_ids for prompt in prompts]
    assert save_state(tiny, prompts[0], tmp_path / "s.kv") == 96
    wrong: list[object] = []
    working = threading.Event()

    def work() -> None:
        for turn in range(30):
            place = turn % len(prompts)
            if answer(tiny, prompts[place], 60).token_ids != expected[place]:
                wrong.append(turn)
            working.set()

    thread = threading.Thread(target=work)
    thread.start()
    working.wait()
    n_moves = 0
    while thread.is_alive():
        assert save_state(tiny, prompts[0], tmp_path / "t.kv") in (96, 0)
        tiny.forget()
        assert len(load_state(tiny, tmp_path / "s.kv")) == 96
        n_moves += 1
    thread.join()
    assert wrong == [] and n_moves > 0
    tiny.forget()
    kv = tiny.stats()["kv"]
    assert (kv["pages_used"], kv["pages_cached"]) == (0, 0)


def test_a_state_that_finds_no_room_is_not_loaded(smollm2: Path, tmp_path: Path) -> None:
    # Not a tiny model: its completions would be done, and their pages idle, before this is read.
    config = EngineConfig(n_ctx=512, threads=1, kv_memory=512)
    with Engine(smollm2, config) as engine:
        tokens = (engine.tokenize(PROMPT) * 4)[:240]
        answer(engine, tokens, 1)
        assert save_state(engine, tokens, tmp_path / "s.kv") == 240
        engine.forget()
        others = [*reversed(tokens), *reversed(tokens[:60])]  # 300 of the 512 tokens
        running = engine.complete(Request(others, GREEDY, 200, ignore_eos=True))
        next(running)
        assert load_state(engine, tmp_path / "s.kv") == ()
        running.close()
        assert load_state(engine, tmp_path / "s.kv") == tuple(tokens)  # in place of what is idle


def test_a_model_that_was_replaced_since_it_was_loaded_saves_no_state(
    tiny_model: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(tiny_model.read_bytes())
    with Engine(model, EngineConfig(n_ctx=256, threads=1)) as engine:
        tokens = list(range(100, 140))
        answer(engine, tokens)
        replacement = tmp_path / "new.gguf"
        replacement.write_bytes(tiny_llama_bytes(seed=1))
        replacement.rename(model)
        with pytest.raises(StateFileError, match="another file"):
            save_state(engine, tokens, tmp_path / "state.kv")
        assert not (tmp_path / "state.kv").exists()
