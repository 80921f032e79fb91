"""An engine on the socket: from its start to its end, while it works and while it does not."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

import pytest
from stats_support import until

from orin_llm.engine import Engine, EngineConfig, Request
from orin_llm.stats import attach, running_engines


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / "orin-llm"


def test_an_engine_is_found_while_it_runs_and_publishes_its_numbers(tiny_model: Path) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=64, threads=1)) as engine:
        (found,) = running_engines()
        assert (found.pid, found.model) == (os.getpid(), str(tiny_model))
        assert found.config["n_ctx"] == 64 and found.config["hooks"]["pages"] == "on"
        with attach(found.path, interval_ms=20) as lines:
            before = next(lines)
            list(engine.complete(Request([5, 6, 7], max_tokens=4)))
            until(lambda: next(lines)["requests"]["finished"] == 1, "the request")
            after = next(lines)
            assert before["tokens"]["prefilled"] == 0 and after["tokens"]["prefilled"] == 3
            assert set(after) - {"at_ms", "monotonic_ms"} == set(engine.stats())
            engine.close()
            assert len(list(lines)) < 100
    assert running_engines() == []


def test_the_last_answers_are_told_with_the_times_that_their_results_have(
    tiny_model: Path,
) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=64, threads=1)) as engine:
        results = []
        for n in range(1, 20):
            completion = engine.complete(Request([5, 6, 7], max_tokens=1 + n % 3, ignore_eos=True))
            list(completion)
            results.append(completion.result)
        answers = engine.stats()["answers"]
        assert [answer["number"] for answer in answers] == list(range(4, 20))
        for answer, result in zip(answers, results[3:], strict=True):
            assert answer["prompt_tokens"] == 3 and answer["tokens"] == len(result.token_ids)
            assert answer["ttft_ms"] == pytest.approx(result.timings.ttft_ms)
            if answer["tokens"] == 1:
                assert answer["tpot_ms"] is None
            else:
                assert answer["tpot_ms"] == pytest.approx(result.timings.tpot_ms)
            started = answer["ended_ms"] - result.timings.e2el_ms
            assert started >= result.timings.submitted_ms


def test_a_request_that_ends_without_a_token_is_no_answer_and_one_that_is_cancelled_is(
    tiny_model: Path,
) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=256, threads=1)) as engine:
        endless = engine.complete(Request([5, 6, 7], max_tokens=200, ignore_eos=True))
        next(iter(endless))
        endless.close()
        late = engine.complete(Request([5, 6, 7], max_tokens=4, timeout_s=1e-9))
        list(late)
        assert late.result.finish_reason == "deadline"
        until(lambda: len(engine.stats()["answers"]) == 1, "the cancelled one")
        assert engine.stats()["answers"][0]["tokens"] >= 1


def test_an_engine_that_is_dropped_is_gone(tiny_model: Path, folder: Path) -> None:
    engine = Engine(tiny_model, EngineConfig(n_ctx=64, threads=1))
    assert len(list(folder.iterdir())) == 1
    del engine
    gc.collect()
    assert list(folder.iterdir()) == []


def test_an_engine_need_not_publish(tiny_model: Path, folder: Path) -> None:
    with Engine(tiny_model, EngineConfig(n_ctx=64, threads=1, publish=False)) as engine:
        assert engine.publisher is None and not folder.exists()


def test_an_engine_runs_where_it_cannot_publish(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/self")
    with Engine(tiny_model, EngineConfig(n_ctx=64, threads=1)) as engine:
        assert engine.publisher is not None and engine.publisher.path is None
        assert "/proc/self/orin-llm" in str(engine.publisher.problem)
        completion = engine.complete(Request([5, 6, 7], max_tokens=4))
        assert list(completion)
