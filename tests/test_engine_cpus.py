"""Where the engine's threads run, and which attention llama.cpp computes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from gguf_bytes import Shape, tiny_llama

from orin_llm.engine import Engine, EngineConfig, LoadProgress, Request, SamplingParams
from orin_llm.errors import OrinError, UsageError
from orin_llm.host.cpu_set import cores_text

ALLOWED = frozenset(os.sched_getaffinity(0))
SMALL: Mapping[str, object] = {"n_ctx": 256, "gpu_layers": 0, "publish": False}
PROMPT = "The sea was calm that morning, and the boats lay still."


def cores_by_thread() -> dict[int, str]:
    """The cores that each thread of this process may use, by its number."""
    cores = {}
    for folder in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            for line in (folder / "status").read_text().splitlines():
                if line.startswith("Cpus_allowed_list:"):
                    cores[int(folder.name)] = line.split()[1]
    return cores


def answer(engine: Engine, n: int = 4) -> list[float]:
    """Log-probabilities of an answer's tokens."""
    request = Request(engine.tokenize(PROMPT), SamplingParams(temperature=0), n, logprobs=1)
    return [token.logprob for chunk in engine.complete(request) for token in chunk.logprobs]


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two cores")
def test_only_the_threads_of_the_engine_are_kept_on_its_cores(smollm2: Path) -> None:
    before = cores_by_thread()
    core = max(ALLOWED)
    with Engine(smollm2, EngineConfig(**SMALL, threads=3, cpus=str(core))) as engine:  # type: ignore[arg-type]
        answer(engine)
        after = cores_by_thread()
    new = {thread: cores for thread, cores in after.items() if thread not in before}
    assert len(new) >= 3  # the engine's own, and two that compute with it
    assert set(new.values()) == {str(core)}
    others = before.keys() & after.keys()  # one may have ended only now
    assert {thread: after[thread] for thread in others} == {t: before[t] for t in others}


def test_without_a_list_threads_may_use_what_the_process_may(smollm2: Path) -> None:
    before = cores_by_thread()
    with Engine(smollm2, EngineConfig(**SMALL, threads=2)) as engine:  # type: ignore[arg-type]
        answer(engine)
        new = {cores for thread, cores in cores_by_thread().items() if thread not in before}
    assert new == {cores_text(ALLOWED)}


def test_threads_are_as_many_as_the_cores_that_are_named(smollm2: Path) -> None:
    with Engine(smollm2, EngineConfig(**SMALL, cpus=str(min(ALLOWED)))) as engine:  # type: ignore[arg-type]
        assert engine.threads == 1


def test_cores_that_are_not_there_are_a_usage_error_before_the_model_is_read(
    smollm2: Path,
) -> None:
    def fail(_: LoadProgress) -> None:
        raise AssertionError("the model is read")

    with pytest.raises(UsageError, match="cpus names core 1023, which this process may not use"):
        Engine(smollm2, EngineConfig(**SMALL, cpus="1023"), fail)  # type: ignore[arg-type]


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two cores")
def test_the_command_refuses_a_core_that_taskset_keeps_from_it(smollm2: Path) -> None:
    mine, other = min(ALLOWED), max(ALLOWED)
    command = [sys.executable, "-m", "orin_llm.cli", "run", "-m", str(smollm2), "-p", "x"]
    done = subprocess.run(
        ["taskset", "-c", str(mine), *command, "--cpus", str(other)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"cpus names core {other}" in " ".join(done.stderr.split())


def test_flash_attention_is_llama_cpps_where_that_computes(tiny_model: Path) -> None:
    logprobs = {}
    for flash in ("auto", "on", "off"):
        config = EngineConfig(**SMALL, threads=1, hooks="none", flash_attention=flash)  # type: ignore[arg-type]
        with Engine(tiny_model, config) as engine:
            logprobs[flash] = answer(engine)
    assert logprobs["auto"] == logprobs["on"]  # a CPU has it
    assert logprobs["off"] != logprobs["on"]  # sums in another order
    assert logprobs["off"] == pytest.approx(logprobs["on"], abs=0.01)


def test_in_pages_flash_attention_changes_nothing_and_that_is_said(smollm2: Path) -> None:
    with Engine(smollm2, EngineConfig(**SMALL, threads=1)) as engine:  # type: ignore[arg-type]
        expected = answer(engine)
        assert "note" not in engine.backend
    with Engine(smollm2, EngineConfig(**SMALL, threads=1, flash_attention="off")) as engine:  # type: ignore[arg-type]
        assert answer(engine) == expected
        assert engine.backend["note"] == "flash attention off changes nothing in pages"


@pytest.mark.parametrize(
    "settings, reason",
    [
        ({"flash_attention": "yes"}, "auto, on, off"),
        ({"flash_attention": "off", "hooks": "-attention"}, "Switch the hook pages off, too"),
        ({"flash_attention": "off", "hooks": "none", "kv_type": "f16:q8_0"}, "-ctk f16:f16"),
        ({"cpus": "0-"}, "such as 0-3,6"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_asked_for(
    settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        EngineConfig(**settings)  # type: ignore[arg-type]


def test_a_model_without_pages_says_what_its_quantized_values_need(tmp_path: Path) -> None:
    model = tmp_path / "alibi.gguf"
    model.write_bytes(tiny_llama(shape=Shape(arch="refact", n_embd=128)).data)
    config = EngineConfig(**SMALL, kv_type="f16:q8_0", flash_attention="off")  # type: ignore[arg-type]
    with pytest.raises(OrinError, match=r"no values of type q8_0: leave --flash at auto"):
        Engine(model, config)
    off = EngineConfig(**SMALL, flash_attention="off")  # type: ignore[arg-type]
    with Engine(model, off) as engine:
        assert not engine.is_paged
        assert "flash" not in str(engine.backend["note"])
