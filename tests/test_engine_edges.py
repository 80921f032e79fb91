"""The edges of an engine's life: full steps, forks, closing, event loops that come and go."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from completions import BAN_POISONED, POISONED, finish, poisoned_model, prompt, start
from processes import python, run

from orin_llm.engine import Completion, Engine, EngineConfig, Hooks, Request
from orin_llm.engine.wakers import LoopWaker
from orin_llm.errors import OrinError, UsageError


@pytest.fixture
def engine(tiny_model: Path) -> Iterator[Engine]:
    config = EngineConfig(n_ctx=256, threads=1, chunk_size=32, publish=False)
    with Engine(tiny_model, config) as engine:
        yield engine


def open_files() -> int:
    """Of this process: a publishing engine has one more for whoever looks for engines."""
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- steps as large as they get -------------------------------------------------------------------

# llama.cpp ends the process when a step has more tokens than its context is long.
FULL_STEPS = """
    import sys
    from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
    n_ctx, max_batch = int(sys.argv[2]), int(sys.argv[3])
    config = EngineConfig(n_ctx=n_ctx, threads=1, max_batch=max_batch)
    with Engine(sys.argv[1], config) as engine:
        def start(tokens, n):
            greedy = SamplingParams(temperature=0)
            return engine.complete(Request(tokens, greedy, n, ignore_eos=True))
        many = [start([100 + i], n_ctx - 1) for i in range(max_batch - 1)]
        for completion in many:
            next(completion)
        many += [start([200 + i] * (n_ctx - 1), 1) for i in range(4)]
        print(sum(len(chunk.token_ids) for completion in many for chunk in completion))
"""


@pytest.mark.parametrize(("n_ctx", "max_batch"), [(64, 16), (16, 64), (256, 8), (250, 64)])
def test_a_whole_contexts_prompt_can_join_a_full_batch(
    tiny_model: Path, n_ctx: int, max_batch: int
) -> None:
    done = run(python(FULL_STEPS, str(tiny_model), str(n_ctx), str(max_batch)))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == (max_batch - 1) * (n_ctx - 2) + 4


# -- closing --------------------------------------------------------------------------------------


def test_a_closed_engine_holds_no_memory(smollm2: Path) -> None:
    with Engine(smollm2, EngineConfig(n_ctx=256, threads=1, use_mmap=False)) as engine:
        opened = resident_bytes()
    gc.collect()
    assert opened - resident_bytes() > 64 * 2**20
    assert engine.closed


def test_a_dropped_engine_leaves_nothing_in_an_event_loop_that_goes_on(tiny_model: Path) -> None:
    async def main() -> list[int]:
        counts = []
        for _ in range(10):
            engine = Engine(tiny_model, EngineConfig(n_ctx=256, threads=1, publish=False))
            completion = start(engine, [100], 200)
            async for _ in completion:
                pass
            del engine, completion
            gc.collect()
            await asyncio.sleep(0)  # it is told in the loop
            counts.append(open_files())
        return counts

    counts = asyncio.run(main())
    assert counts[-1] == counts[0]


def test_what_closed_completions_held_is_free_for_commands_at_once(tiny_model: Path) -> None:
    config = EngineConfig(n_ctx=256, threads=1, max_batch=8, kv_memory=1024)
    with Engine(tiny_model, config) as engine:
        for seed in range(10):
            completions = [start(engine, prompt(seed + i, 150), 100) for i in range(4)]
            for completion in completions:
                next(completion)
            for completion in completions:
                completion.close()
            engine.resize_kv(256)
            engine.resize_kv(1024)
            completion = start(engine, prompt(seed, 150), 100)
            next(completion)
            completion.close()
            engine.forget()
            assert engine.stats()["kv"]["pages_cached"] == 0


# -- event loops ----------------------------------------------------------------------------------


async def take(completion: Completion) -> int:
    n = 0
    async for chunk in completion:
        n += len(chunk.token_ids)
    return n


def test_what_comes_before_a_loop_first_waits_is_not_missed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole answer comes after the coroutine looked and before its loop is told of any."""
    completion = start(engine, prompt(1, 100), 8)
    make = LoopWaker.__init__

    def late(self: LoopWaker, runner: object, loop: asyncio.AbstractEventLoop) -> None:
        finish(other)  # submitted later, so that the other is done
        make(self, runner, loop)  # type: ignore[arg-type]

    monkeypatch.setattr(LoopWaker, "__init__", late)
    look, looks = Completion._look, iter([False])
    monkeypatch.setattr(Completion, "_look", lambda self: next(looks, True) and look(self))
    other = start(engine, prompt(2, 100), 100)
    assert asyncio.run(asyncio.wait_for(take(completion), 10)) == 8


def test_loops_that_have_ended_are_forgotten(engine: Engine) -> None:
    counts = []
    for seed in range(20):
        assert asyncio.run(take(start(engine, prompt(seed, 100), 100))) == 100
        counts.append(open_files())
    assert counts[-1] <= counts[0] + 1


def test_a_loop_that_never_runs_again_keeps_no_file_of_a_closed_engine(tiny_model: Path) -> None:
    before = open_files()
    config = EngineConfig(n_ctx=256, threads=1, max_batch=1, publish=False)
    for seed in range(5):
        with Engine(tiny_model, config) as engine:
            loop = asyncio.new_event_loop()
            blockers = [start(engine, prompt(seed, 20), 230) for _ in range(20)]
            task = loop.create_task(take(start(engine, [100], 8)))
            loop.run_until_complete(asyncio.sleep(0))  # it waits
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
        loop.close()
        del loop, task, blockers
    gc.collect()
    assert open_files() == before


# -- logits that are no numbers -------------------------------------------------------------------


@pytest.mark.parametrize("hooks", ["all", "none"])
def test_what_a_failed_completion_left_in_the_cache_fails_no_other(
    tmp_path: Path, hooks: str
) -> None:
    config = EngineConfig(n_ctx=256, threads=1, hooks=Hooks.parse(hooks))
    tokens = prompt(1, 60)
    with Engine(poisoned_model(tmp_path), config) as engine:
        expected = finish(engine.complete(Request(tokens, BAN_POISONED, 8)))
        engine.forget()
        with pytest.raises(OrinError, match="not a number"):
            finish(engine.complete(Request([*tokens, POISONED], BAN_POISONED, 8)))
        assert finish(engine.complete(Request(tokens, BAN_POISONED, 8))) == expected


# -- what is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize("token", [-1, 300, 1 << 40])
def test_a_token_that_does_not_exist_is_refused(engine: Engine, token: int) -> None:
    with pytest.raises(UsageError, match=f"token {token}.* 300 tokens"):
        start(engine, [100, token, 101])


@pytest.mark.parametrize("n", [300, 301, 1 << 40])
def test_as_many_logprobs_as_there_are_tokens_are_the_most(engine: Engine, n: int) -> None:
    chunk = next(start(engine, [100], 1, logprobs=n))
    assert len(chunk.logprobs[0].top) == 300


# -- who takes the tokens -------------------------------------------------------------------------


def test_threads_that_iterate_one_completion_share_its_tokens(engine: Engine) -> None:
    for seed in range(10):
        completion = start(engine, prompt(seed, 20), 200)
        taken: list[int] = []

        def iterate(completion: Completion = completion, taken: list[int] = taken) -> None:
            for chunk in completion:
                taken.extend(chunk.token_ids)

        threads = [threading.Thread(target=iterate) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
            assert not thread.is_alive()
        assert len(taken) == 200
        assert sorted(taken) == sorted(completion.result.token_ids)
        assert completion.result.finish_reason == "length"


def test_a_completion_has_a_result_when_its_engine_closes_as_it_ends(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    completion = start(engine, prompt(1, 20), 200)
    next(completion)
    stats = Engine.stats

    def closed_meanwhile(self: Engine) -> dict[str, object]:
        self.close()
        return stats(self)

    monkeypatch.setattr(Engine, "stats", closed_meanwhile)
    completion.close()
    assert completion.result.finish_reason == "cancelled"
    assert completion.result.completion_tokens == 1


# -- forks ----------------------------------------------------------------------------------------

FORKED = """
    import os, sys
    from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
    from orin_llm.errors import OrinError, UsageError
    engine = Engine(sys.argv[1], EngineConfig(n_ctx=256, threads=1))
    request = Request([100, 101], SamplingParams(temperature=0), 200, ignore_eos=True)
    completion = engine.complete(request)
    if os.fork() == 0:
        try:
            for chunk in completion:
                pass
        except OrinError as error:
            print(error, flush=True)
        engine.close()
        sys.exit(0)
    os.wait()
    print(sum(len(chunk.token_ids) for chunk in completion))
"""


def test_a_fork_is_told_that_it_has_no_engine_and_ends_in_peace(tiny_model: Path) -> None:
    done = run(python(FORKED, str(tiny_model)))
    assert done.stderr == ""
    message, n_tokens = done.stdout.splitlines()
    assert "process" in message
    assert n_tokens == "200"


def test_threads_that_take_tokens_when_the_interpreter_ends_do_not_abort_it(
    tiny_model: Path,
) -> None:
    program = """
        import sys, threading, time
        from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
        engine = Engine(sys.argv[1], EngineConfig(n_ctx=256, threads=1))
        def take():
            while True:
                for _ in engine.complete(Request([100, 101], SamplingParams(temperature=0), 200)):
                    pass
        for _ in range(4):
            threading.Thread(target=take, daemon=True).start()
        time.sleep(0.05)
    """
    for _ in range(4):
        done = run(python(program, str(tiny_model)))
        assert done.returncode == 0, done.stderr
