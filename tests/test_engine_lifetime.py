"""The interpreter survives what programs do to engines: many of them, forks, signals, closing."""

from __future__ import annotations

import gc
import math
import os
import signal
import struct
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from processes import interrupt, python, read_some, run, start

from orin_llm._native import check_gguf
from orin_llm.engine import Engine, EngineConfig, LoadProgress, Request, SamplingParams
from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.upstream import vocab_file

GREEDY = SamplingParams(temperature=0)


def write(engine: Engine, n: int = 4) -> str:
    completion = engine.complete(Request(engine.tokenize("Hello, my name is"), GREEDY, n))
    return "".join(chunk.text for chunk in completion)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_engines_in_one_process_answer_alike(smollm2: Path, engine: Engine) -> None:
    with Engine(smollm2, EngineConfig(n_ctx=256, threads=engine.threads)) as other:
        assert write(other) == write(engine)


def test_a_hundred_loads_do_not_grow_the_process(tiny_model: Path) -> None:
    def load_and_write() -> None:
        with Engine(tiny_model, EngineConfig(n_ctx=64, threads=1)) as engine:
            write(engine, 2)

    for _ in range(20):  # allocators and caches settle
        load_and_write()
    gc.collect()
    before = resident_bytes()
    for _ in range(100):
        load_and_write()
    gc.collect()
    assert resident_bytes() - before < 8 * 2**20


def test_a_closed_engine_says_so(tiny_model: Path) -> None:
    engine = Engine(tiny_model, EngineConfig(n_ctx=64, threads=1))
    completion = engine.complete(Request([1, 2, 3], GREEDY, 8))
    next(completion)
    engine.close()
    engine.close()
    with pytest.raises(OrinError, match="closed"):
        list(completion)
    with pytest.raises(OrinError, match="closed"):
        engine.tokenize("x")


def test_progress_counts_all_bytes_and_its_exception_stops_the_load(smollm2: Path) -> None:
    seen: list[LoadProgress] = []
    with Engine(smollm2, EngineConfig(n_ctx=64), seen.append) as engine:
        total = sum(tensor.nbytes for tensor in engine.header.tensors)
    assert seen[-1].bytes_done == seen[-1].bytes_total == total
    assert all(a.bytes_done <= b.bytes_done for a, b in pairwise(seen))

    class Stop(Exception):
        pass

    def stop(progress: LoadProgress) -> None:
        raise Stop

    with pytest.raises(Stop):
        Engine(smollm2, EngineConfig(n_ctx=64), stop)


def test_a_context_longer_than_trained_for_is_refused(smollm2: Path) -> None:
    with pytest.raises(UsageError, match="8192"):
        Engine(smollm2, EngineConfig(n_ctx=8193))


def test_weights_that_are_not_numbers_end_in_an_error(tiny_model: Path, tmp_path: Path) -> None:
    (norm,) = (t for t in check_gguf(str(tiny_model)).tensors if t.name == "output_norm.weight")
    data = bytearray(tiny_model.read_bytes())
    data[norm.offset : norm.offset + 4] = struct.pack("<f", math.nan)
    damaged = tmp_path / "nan.gguf"
    damaged.write_bytes(data)
    with (
        Engine(damaged, EngineConfig(n_ctx=64, threads=1)) as engine,
        pytest.raises(OrinError, match="not a number"),
    ):
        next(engine.complete(Request([1, 2, 3], GREEDY, 4)))


def test_a_file_without_weights_is_no_model() -> None:
    with pytest.raises(ModelFileError, match="no weights"):
        Engine(vocab_file("gpt-2"))


def test_a_fork_after_import_can_use_an_engine(tiny_model: Path) -> None:
    program = """
        import os, sys
        from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
        children = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                engine = Engine(sys.argv[1], EngineConfig(n_ctx=64, threads=2))
                request = Request([1, 2, 3], SamplingParams(temperature=0), 4)
                os._exit(0 if len(list(engine.complete(request))) >= 4 else 1)
            children.append(pid)
        sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
    """
    done = run(python(program, str(tiny_model)))
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
    import os, signal, sys, threading
    from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams

    def soon(delay):
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()

    engine = Engine(sys.argv[1], EngineConfig(n_ctx=8192, threads=2, chunk_size=2048))
    greedy = SamplingParams(temperature=0)
    request = Request(engine.tokenize("word " * 8000)[:8000], greedy, 8)
    soon(0.5)
    try:
        next(engine.complete(request))
    except KeyboardInterrupt:
        print("interrupted")
    short = engine.complete(Request(engine.tokenize("Hello, my name is"), greedy, 4))
    print("then", sum(len(chunk.token_ids) for chunk in short))
"""


def test_ctrl_c_stops_a_prefill_at_once_and_the_engine_goes_on(smollm2: Path) -> None:
    done = run(python(INTERRUPTED, str(smollm2)))
    first, second = done.stdout.splitlines()
    assert first == "interrupted", done.stderr
    assert second == "then 4"


@pytest.mark.parametrize("delay_ms", [1, 30, 100, 300, 1000, 2000])
def test_ctrl_c_at_any_moment_ends_with_keyboard_interrupt(smollm2: Path, delay_ms: int) -> None:
    program = """
        import sys
        print("started", flush=True)
        from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
        engine = Engine(sys.argv[1], EngineConfig(threads=2))
        bans = {token: float("-inf") for token in engine.eog_ids}
        sampling = SamplingParams(temperature=0, logit_bias=bans)
        for chunk in engine.complete(Request(engine.tokenize("word " * 400), sampling)):
            pass
    """
    process = start(python(program, str(smollm2)))
    read_some(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(delay_ms / 1e3)
    _, errors = interrupt(process)
    assert "KeyboardInterrupt" in errors
    assert process.returncode in (130, -signal.SIGINT, 1)
