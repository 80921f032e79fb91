"""Each indicator passes on a sound machine, and fails when what it watches over goes wrong.

The model is the default one, and each fault is real: other users of the engine, too little memory,
a damaged file, positions beyond a table. Only a board's sensors are stand-ins.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from accept_support import Fault, Neighbours, limits_file
from bench_support import failed
from fakes import boards
from gguf_bytes import Shape, tiny_llama
from processes import CLI, run
from rope_formula import NORM, Rope
from rope_probe import probe, random_x, with_table

from orin_llm.accept.indicators import chosen
from orin_llm.accept.measure import Bench
from orin_llm.accept.outcome import Outcome
from orin_llm.accept.plan import make_plan
from orin_llm.accept.session import Session
from orin_llm.accept.thresholds import read_thresholds
from orin_llm.bench.records import Run
from orin_llm.device.sampler import Sampler
from orin_llm.device.stamp import read_stamp
from orin_llm.engine import Completion, Engine, EngineConfig, Request
from orin_llm.errors import OrinError
from orin_llm.gguf.header import read_header
from orin_llm.models.reporter import Reporter
from orin_llm.quality.base_logits import BaseLogits
from orin_llm.quality.compare import Side, open_side
from orin_llm.quality.window_logits import WindowLogits

# One thread: several wait for each other at every step, which takes long on a busy machine.
CONFIG = EngineConfig(n_ctx=512, threads=1, publish=False)
SHAPES = """
[shape.ttft]
requests = 6
prompt_tokens = 16
max_tokens = 1
[shape.growth]
requests = 1
prompt_tokens = 16
max_tokens = 56
compared_tokens = 16
[shape.load]
rounds = 1
streams = 1
prompt_tokens = 64
max_tokens = 2
[shape.throughput]
requests = 8
batch = 2
prompt_tokens = 8
max_tokens = 4
"""
EIGHT_STREAMS = """
[shape.ttft]
prompt_tokens = 16
[shape.pages]
streams = 8
prompt_tokens = 128
max_tokens = 200
[shape.throughput]
batch = 8
"""
LONG = list(range(1000, 1192))  # a prompt that takes many times as long as a token


def check(
    model: Path,
    only: str,
    folder: Path,
    limits: dict[str, float] | None = None,
    fault: Fault | None = None,
    config: EngineConfig = CONFIG,
    shapes: str = SHAPES,
    **more: Any,
) -> Outcome:
    thresholds = read_thresholds(limits_file(folder, shapes)).with_flags(limits or {})
    stamp = read_stamp(more.get("root", Path("/")))
    plan = make_plan(model, config, chosen(only), thresholds, stamp, **more)
    report = Neighbours(fault)
    (outcome,) = Session(plan, report.load, open_side, report).outcomes()
    assert not outcome.error
    return outcome


@pytest.fixture(scope="module")
def long_ms(smollm2: Path) -> float:
    """What the neighbours' prompt takes now: what is too much is measured by it."""
    with Engine(smollm2, CONFIG) as engine:
        completion = engine.complete(Request(LONG, max_tokens=1))
        assert sum(len(chunk.token_ids) for chunk in completion) == 1
        return completion.result.timings.ttft_ms


def test_1_a_neighbours_prompts_in_front_of_some_requests(
    smollm2: Path, tmp_path: Path, long_ms: float
) -> None:
    def fault(neighbours: Neighbours, request: Request) -> Completion:
        if neighbours.n_requests == 3:
            neighbours.come(1, LONG)
        return neighbours.ask(request)

    limits = {"ttft_std_ms": long_ms / 4}
    assert check(smollm2, "ttft", tmp_path, limits).status == "passed"
    assert check(smollm2, "ttft", tmp_path, limits, fault).status == "failed"


def test_2_neighbours_that_get_their_turn_while_the_answer_goes_on(
    smollm2: Path, tmp_path: Path, long_ms: float
) -> None:
    """One takes the second lane for 42 tokens; four that wait for it have long prompts."""

    def fault(neighbours: Neighbours, request: Request) -> Completion:
        mine = neighbours.ask(request)
        neighbours.come(1, LONG[:8], max_tokens=42)
        neighbours.come(4, LONG)
        return mine

    limits = {"tpot_growth_ms": long_ms / 8}
    assert check(smollm2, "growth", tmp_path, limits).status == "passed"
    assert check(smollm2, "growth", tmp_path, limits, fault).status == "failed"


@pytest.mark.parametrize(
    ("changed", "gpu", "memory", "status"),
    [
        ({}, 92, 25, "passed"),
        ({"GR3D_FREQ 92%": "GR3D_FREQ 40%"}, 40, 25, "failed"),
        ({"RAM 15710/": "RAM 58000/"}, 92, 92.3, "failed"),
    ],
    ids=["sound", "GPU waits", "memory is full"],
)
def test_3_a_gpu_that_waits_and_memory_that_is_full(
    smollm2: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    gpu: float,
    memory: float,
    status: str,
) -> None:
    board = boards.AGX_64_JP6
    machine = boards.jetson(tmp_path / "board", board)
    line = board.line
    for old, new in changed.items():
        assert old in line
        line = line.replace(old, new)
    machine.tegrastats(line)
    monkeypatch.setenv("PATH", machine.path)
    limits = {"prefill_gpu_percent": 85.0, "memory_percent": 90.0}
    outcome = check(smollm2, "load", tmp_path, limits, root=machine.root)
    values = [judgement.value for judgement in outcome.judgements]
    assert values == pytest.approx([gpu, memory], abs=0.1)
    assert outcome.status == status


def test_4_a_kv_cache_that_the_streams_do_not_fit_into(tmp_path: Path) -> None:
    """Some are thrown out and computed again: pages that were there have to be filled anew.

    Pages are the same whatever the weights are: of a model that takes no time.
    """
    model = tmp_path / "tiny.gguf"
    model.write_bytes(tiny_llama(shape=Shape(n_ctx=512)).data)
    room = EngineConfig(n_ctx=336, kv_memory=500, threads=1, publish=False)
    sound = check(model, "pages", tmp_path, shapes=EIGHT_STREAMS)
    tight = check(model, "pages", tmp_path, shapes=EIGHT_STREAMS, config=room)
    assert (sound.status, tight.status) == ("passed", "failed")
    assert sound.beside["preemptions"] == 0 < tight.beside["preemptions"]


def test_5_positions_beyond_the_table(
    smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked up in a table of the engine's kind, whose counters come in place of the engine's."""
    small = EngineConfig(n_ctx=64, threads=1, publish=False)
    assert check(smollm2, "rope", tmp_path, config=small).status == "passed"
    rope, hooks = Rope(NORM, 64, 64), with_table(64)
    positions = np.array([3, 63, 64, -1], np.int32)
    hooks.run_rope(random_x(rope, 4), positions, probe(rope))
    native = Engine.runner.fget  # type: ignore[attr-defined]

    class Beyond:
        def __init__(self, engine: Engine) -> None:
            self._runner = native(engine)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._runner, name)

        def rope_counters(self) -> dict[str, int]:
            return hooks.rope_counters

    monkeypatch.setattr(Engine, "runner", property(Beyond))
    outcome = check(smollm2, "rope", tmp_path, config=small)
    assert (outcome.status, outcome.judgements[0].value) == ("failed", 2)


def test_5_without_tables_nothing_is_told(smollm2: Path, tmp_path: Path) -> None:
    config = EngineConfig(n_ctx=64, threads=1, publish=False, hooks="-rope")  # type: ignore[arg-type]
    outcome = check(smollm2, "rope", tmp_path, config=config)
    assert outcome.status == "not measurable"
    assert "hook is off" in outcome.reasons[0]


def test_6_a_layer_of_the_file_that_was_lost(smollm2: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    tool = [*CLI, "perplexity", str(smollm2), "-c", "64", "--windows", "1", "-t", "1"]
    assert run([*tool, "--save-logits", str(base)]).returncode == 0
    damaged = tmp_path / "damaged.gguf"
    shutil.copyfile(smollm2, damaged)
    with damaged.open("r+b") as file:
        for tensor in read_header(smollm2).tensors:
            if tensor.name == "blk.1.ffn_down.weight":
                file.seek(tensor.offset)
                file.write(bytes(tensor.nbytes))
    reference = BaseLogits.read(base)
    sound = check(smollm2, "perplexity", tmp_path, reference=reference)
    lost = check(damaged, "perplexity", tmp_path, reference=reference)
    assert (sound.status, lost.status) == ("passed", "failed")
    assert sound.judgements[0].value == pytest.approx(1, abs=1e-3)


def test_7_neighbours_that_take_the_lanes(smollm2: Path, tmp_path: Path, long_ms: float) -> None:
    def fault(neighbours: Neighbours, request: Request) -> Completion:
        if neighbours.n_requests == 1:
            neighbours.come(4, LONG)
        return neighbours.ask(request)

    limits = {"requests_per_s": 8e3 / (2 * long_ms)}  # in two of their prompts' time
    assert check(smollm2, "throughput", tmp_path, limits).status == "passed"
    assert check(smollm2, "throughput", tmp_path, limits, fault).status == "failed"


def test_5_of_a_request_that_failed_for_positions_beyond_the_table_these_are_told() -> None:
    """A GPU's kernel gives no number for them, so that the answer ends in an error."""

    class Stub:
        n_ctx, n_vocab = 64, 100
        backend: ClassVar[dict[str, Any]] = {"hooks": {"rope": "on"}}
        runner: Any
        outside = 7

        def rope_counters(self) -> dict[str, int]:
            return {"lookups": 0, "fallbacks": 0, "out_of_bounds": self.outside}

        def rope_store_report(self) -> dict[str, Any]:
            return {"n_layers": 2, "n_stock": 0, "reason": ""}

    class Failing(Bench):
        @property
        def _runner(self) -> Any:
            return SimpleNamespace(run=lambda workload: Run((failed("not a number"),)))

    stub: Any = Stub()
    stub.runner = stub
    bench = Failing(stub, Sampler(stub), read_thresholds().shapes, "")
    found = bench.measure("rope", lambda done, total: None, {})
    assert found.values == {"rope_out_of_bounds": 7}
    stub.outside = 0
    with pytest.raises(OrinError, match="a request failed: not a number"):
        bench.measure("rope", lambda done, total: None, {})


def test_6_a_reference_without_room_is_no_fault_of_the_model(smollm2: Path, tmp_path: Path) -> None:
    def full(side: Side, beside: WindowLogits | None) -> WindowLogits:
        raise OrinError("there is not enough memory")

    reference = Side(tmp_path / "f16.gguf", CONFIG)
    thresholds = read_thresholds(limits_file(tmp_path, SHAPES))
    plan = make_plan(
        smollm2, CONFIG, chosen("6"), thresholds, read_stamp(), reference=reference, text="a text"
    )
    (outcome,) = Session(plan, Engine, full, Reporter()).outcomes()
    assert outcome.status == "not measurable"
    assert "there is not enough memory" in outcome.reasons[0]
    assert "--logits FILE" in outcome.reasons[0]
