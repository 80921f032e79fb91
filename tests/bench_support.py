"""Requests, steps and results as the benchmark's tests make them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from processes import CLI, environment, run

from orin_llm.bench.records import RequestRecord, Run
from orin_llm.device.stamp import Stamp
from orin_llm.engine import StepRecord

MiB = 1 << 20
BOARD = Stamp(
    "jetson", "AGX Orin", "p3701-0005", "36.4.3", "6.2", "MODE_30W", 4, 612.0, 2133.0, False,
    "Orin GPU", "Cortex-A78AE", 8,
)  # fmt: skip
ENVIRONMENT: dict[str, Any] = {
    "version": "9.9",
    "commit": "abc1234",
    "llama_cpp": "llama 1.2",
    "upstream_commit": "def",
    "model": {
        "name": "tiny", "fingerprint": "0123456789abcdef", "quant": "Q4_1",
        "parameters": 1_500_000, "bytes": 2_000_000,
    },
    "machine": {"device": "cpu", "cpu": "Some CPU", "architecture": "x86_64", "cores": 2},
    "stamp": BOARD.to_json(),
    "at_start": {"temperatures_c": {"tj": 56.5}, "hottest_c": 56.5},
}  # fmt: skip
# Of what is compared or drawn on any machine.
UNSTAMPED = {name: v for name, v in ENVIRONMENT.items() if name not in ("stamp", "at_start")}


def request(
    token_ms: Sequence[float],
    *,
    submitted_ms: float = 0.0,
    finished_ms: float | None = None,
    role: str = "stream",
    prompt_tokens: int = 10,
    **more: Any,
) -> RequestRecord:
    """A request that ends with its last token unless told otherwise."""
    if finished_ms is None:
        finished_ms = token_ms[-1]
    return RequestRecord(role, submitted_ms, tuple(token_ms), finished_ms, prompt_tokens, **more)


def failed(error: str = "no", submitted_ms: float = 0.0) -> RequestRecord:
    return request([], submitted_ms=submitted_ms, finished_ms=submitted_ms + 1, error=error)


def step(
    number: int, started_ms: float, duration_ms: float, prompt: int = 0, decode: int = 1
) -> StepRecord:
    """A step of which 80 % is computation and 10 % sampling."""
    return StepRecord(
        number=number,
        started_ms=started_ms,
        duration_ms=duration_ms,
        compute_ms=0.8 * duration_ms,
        sampling_ms=0.1 * duration_ms,
        n_prompt_tokens=prompt,
        n_decode_tokens=decode,
        kv_tokens=number * 100,
        kv_bytes_used=number * MiB,
        kv_bytes_committed=2 * number * MiB,
    )


@st.composite
def requests(draw: st.DrawFn) -> RequestRecord:
    """A request of 1 … 20 tokens at times that do not go back."""
    submitted = draw(st.floats(0, 1e4))
    gaps = draw(st.lists(st.floats(0.001, 1e3), min_size=1, max_size=20))
    times = []
    now = submitted
    for gap in gaps:
        now += gap
        times.append(now)
    return request(
        times,
        submitted_ms=submitted,
        finished_ms=now + draw(st.floats(0, 10)),
        prompt_tokens=draw(st.integers(1, 4096)),
    )


def run_of(*records: RequestRecord, steps: Sequence[StepRecord] = ()) -> Run:
    return Run(records, tuple(steps))


def children(pid: int) -> list[int]:
    """The processes that a process has started and not seen the end of."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for t in threads for child in (t / "children").read_text().split()]


def run_bench(model: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    done = run([*CLI, "bench", "-m", str(model), *arguments], env=environment(**variables))
    return done.returncode, done.stdout, done.stderr
