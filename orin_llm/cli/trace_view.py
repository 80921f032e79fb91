"""What `orin-llm trace` prints: figures by phase, or plain values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orin_llm.bench.ratios import Ratio
from orin_llm.cli.numbers import MISSING, time_text
from orin_llm.cli.quality_view import print_facts
from orin_llm.cli.table import print_table
from orin_llm.device.phases import Activity
from orin_llm.host.units import counted, size_text
from orin_llm.trace.cost import Cost
from orin_llm.trace.figures import Figures, PhaseFigures
from orin_llm.trace.record import Plan, Recorded


def trace_json(
    recorded: Recorded, found: Figures, left_out: tuple[str, ...], written: Sequence[Path]
) -> dict[str, Any]:
    """All of it, as plain values."""
    return {
        **recorded.where,
        "workload": recorded.workload,
        "engine": recorded.settings,
        **found.to_json(),
        "interrupted": recorded.interrupted,
        "left_out": list(left_out),
        "files": [str(path) for path in written],
    }


def print_figures(recorded: Recorded, found: Figures) -> None:
    """A table of the phases, and a line for each other fact."""
    heads = (
        "PHASE",
        "STEPS",
        "TIME",
        "COMPUTATION",
        "SAMPLING",
        "HOST",
        "LONGEST STEP",
        "KV AT MOST",
    )
    phases = {"prefill": found.prefill, "decode": found.decode}
    print_table(heads, [(name, *_cells(phase)) for name, phase in phases.items() if phase.steps])
    print()
    print_facts(_facts(recorded, found))


def _cells(phase: PhaseFigures) -> tuple[str, ...]:
    def part(ms: float) -> str:
        return f"{100 * ms / phase.duration_ms:.1f} %" if phase.duration_ms else MISSING

    return (
        str(phase.steps),
        time_text(phase.duration_ms),
        part(phase.compute_ms),
        part(phase.sampling_ms),
        part(phase.host_ms),
        time_text(phase.longest_step_ms),
        MISSING if phase.kv_bytes_peak is None else size_text(phase.kv_bytes_peak),
    )


def _facts(recorded: Recorded, found: Figures) -> list[tuple[str, str]]:
    requests = counted(found.requests, "request")
    facts = [("run", f"{recorded.label}: {requests}, {time_text(found.wall_ms)}")]
    facts.append(("requests", f"TTFT {time_text(found.ttft_ms)}, TPOT {time_text(found.tpot_ms)}"))
    if found.longest_gap is not None:
        total = sum(found.gaps_ms.values())
        longest = found.longest_gap
        facts.append(
            (
                "host gaps",
                f"{time_text(total)} in all; the longest {time_text(longest.duration_ms)}: "
                f"{longest.kind}, step {longest.number}",
            )
        )
    if (pages := found.pages) is not None:
        rate = MISSING if pages.hit_rate is None else f"{100 * pages.hit_rate:.2f} %"
        facts.append(
            (
                "pages",
                f"{pages.lookups} read, {pages.misses} of them taken for it (hit rate {rate}); "
                f"{pages.evictions} evicted, {counted(pages.preemptions, 'preemption')}",
            )
        )
    facts += [
        (f"in {name}", _activity_text(phase.activity))
        for name, phase in (("prefill", found.prefill), ("decode", found.decode))
        if phase.steps
    ]
    return facts


def _activity_text(activity: Activity) -> str:
    """Of the GPU and the memory; of the CPU where nothing else is known."""
    known = (activity.gpu_percent, activity.emc_mhz, activity.bandwidth_gb_s, activity.power_w)
    if all(value is None for value in known) and activity.cpu_percent is not None:
        return f"{activity.cpu_percent:.0f} % CPU; GPU, EMC and power not measured"
    return activity.text()


def print_cost(plan: Plan, cost: Cost) -> None:
    """A line for each time."""
    facts = [("run", f"{plan.scenario.label}, sensors read every {plan.interval_ms:g} ms")]
    facts += [
        (name, _ratio_text(ratio))
        for name, ratio in (("wall time", cost.wall), ("TTFT", cost.ttft), ("TPOT", cost.tpot))
    ]
    print_facts(facts)


def _ratio_text(ratio: Ratio | None) -> str:
    """`×1.002 traced over not (95 %: 0.998 … 1.006), not significant, 8 pairs`."""
    if ratio is None:
        return MISSING
    text = f"×{ratio.mean:.3f} traced over not"
    if ratio.low is not None and ratio.high is not None:
        sure = "significant" if ratio.significant else "not significant"
        text += f" (95 %: {ratio.low:.3f} … {ratio.high:.3f}), {sure}"
    return f"{text}, {counted(ratio.count, 'pair')}"
