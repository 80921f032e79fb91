"""The figures that are judged, out of what runs have left. Pure arithmetic.

Every request must have been completed: `Run.require_all_completed` comes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev

from orin_llm.bench.metrics import figures, known
from orin_llm.bench.records import Run
from orin_llm.device.phases import step_phases
from orin_llm.device.reading import Reading
from orin_llm.quality.comparison import Comparison


@dataclass(frozen=True)
class Figures:
    """What was measured for one indicator.

    Attributes:
        values: by the criterion's name; without those that could not be measured.
        beside: what explains them; names end with their units.
        unmeasured: why a criterion has no value, and what to do, by its name.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    beside: Mapping[str, float] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)


def ttft(runs: Sequence[Run]) -> Figures:
    """The standard deviation (of a sample: n - 1) of the TTFT of all requests; two at least."""
    values = known([request.ttft_ms for run in runs for request in run.completed()])
    return Figures(
        {"ttft_std_ms": stdev(values)},
        {"ttft_mean_ms": mean(values), "ttft_min_ms": min(values), "ttft_max_ms": max(values)},
    )


def growth(runs: Sequence[Run], compared_tokens: int) -> Figures:
    """How much longer a token takes at the end of the answers than at their beginning.

    TPOT of the last `compared_tokens` tokens of each answer less that of the first so many (the
    first token, which belongs to prefill, only begins the time), means over the answers. Beside it:
    TPOT as whole answers have it, of that length and cut off after the first so many.
    """
    early, late, whole = [], [], []
    for request in (request for run in runs for request in run.completed()):
        times = request.token_ms
        early.append(_tpot_ms(times[:compared_tokens]))
        late.append(_tpot_ms(times[-compared_tokens:]))
        whole.append(_tpot_ms(times))
    return Figures(
        {"tpot_growth_ms": mean(late) - mean(early)},
        {"tpot_first_ms": mean(early), "tpot_last_ms": mean(late), "tpot_whole_ms": mean(whole)},
    )


def _tpot_ms(times: Sequence[float]) -> float:
    return (times[-1] - times[0]) / (len(times) - 1)


def load(runs: Sequence[Run], max_gap_ms: float, no_gpu: str) -> Figures:
    """The GPU's load in steps of prefill, and the most memory that was in use in any reading.

    Memory is that of the machine, and of a GPU with its own: the fuller of the two.

    Args:
        max_gap_ms: readings further apart are not believed to tell of the time between them.
        no_gpu: why there may be no load of a GPU, and what to do.
    """
    readings = [reading for run in runs for reading in run.readings]
    phases = step_phases(readings, (step for run in runs for step in run.steps), max_gap_ms)
    gpu, memory = phases.prefill.gpu_percent, _memory_percent(readings)
    values = {"prefill_gpu_percent": gpu, "memory_percent": memory}
    why = {
        "prefill_gpu_percent": no_gpu,
        "memory_percent": "no sensor tells how much memory is in use (orin-llm monitor --once)",
    }
    beside = {
        "prefill_gpu_mhz": phases.prefill.gpu_mhz,
        "prefill_emc_percent": phases.prefill.emc_percent,
        "prefill_emc_mhz": phases.prefill.emc_mhz,
        "prefill_power_w": phases.prefill.power_w,
        "decode_gpu_percent": phases.decode.gpu_percent,
        "readings": float(len(readings)),
    }
    return Figures(
        {name: value for name, value in values.items() if value is not None},
        {name: value for name, value in beside.items() if value is not None},
        {name: why[name] for name, value in values.items() if value is None},
    )


def _memory_percent(readings: Iterable[Reading]) -> float | None:
    shares = [
        100 * used / total
        for r in readings
        for used, total in (
            (r.ram_used_bytes, r.ram_total_bytes),
            (r.gpu_memory_used_bytes, r.gpu_memory_total_bytes),
        )
        if used is not None and total
    ]
    return max(shares, default=None)


def pages(runs: Sequence[Run], not_paged: str) -> Figures:
    """The page hit rate: the share of pages read by attention in a step that were there before it.

    Args:
        not_paged: why the KV cache may not be in pages.
    """
    uses = [run.kv for run in runs if run.kv is not None]
    lookups = sum(use.lookups for use in uses)
    misses = sum(use.misses for use in uses)
    if not lookups:
        return Figures(unmeasured={"hit_rate_percent": not_paged})
    preempted = sum(request.preemptions for run in runs for request in run.completed())
    return Figures(
        {"hit_rate_percent": 100 * (1 - misses / lookups)},
        {"lookups": lookups, "misses": misses, "preemptions": preempted},
    )


def rope(counters: Mapping[str, int], served_layers: int, no_table: str) -> Figures:
    """Look-ups outside of the RoPE tables, of an engine since it was made.

    Rows that a table did not cover, and that llama.cpp's own path therefore computed (`fallbacks`),
    are outside of it, too.

    Args:
        counters: of the engine (`Runner.rope_counters`).
        served_layers: of the latest graph on a GPU, that read a table there.
        no_table: why nothing may have been looked up.
    """
    if not counters["lookups"] and not counters["fallbacks"] and not served_layers:
        return Figures(unmeasured={"rope_out_of_bounds": no_table})
    return Figures(
        {"rope_out_of_bounds": counters["out_of_bounds"] + counters["fallbacks"]},
        {**counters, "layers_with_gpu_table": served_layers},
    )


def perplexity(found: Comparison) -> Figures:
    """The model's perplexity over the reference's, on the same tokens."""
    ratio = found.ppl_ratio
    return Figures(
        {"ppl_ratio": ratio.value},
        {
            "ppl_ratio_uncertainty": ratio.uncertainty,
            "ppl": found.ppl.value,
            "reference_ppl": found.reference_ppl.value,
            "kl_divergence": found.divergence.mean.value,
            "scored_tokens": len(found.nlls),
        },
    )


def throughput(run: Run) -> Figures:
    """Completed requests over the time from the first one's submission to the last one's end."""
    found = figures(run)
    return Figures(
        {"requests_per_s": found["requests_per_s"]},
        {name: found[name] for name in ("output_tokens_per_s", "ttft_ms") if name in found},
    )
