"""What is printed at the end, and the tables for docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_check.figures import Pair, Steps, pairs
from gpu_check.kernel_report import kernel_tables
from gpu_check.tables import table
from gpu_check.targets import PROXY, targets

_MET = {True: "yes", False: "**no**", None: "–"}


def summary(data: dict[str, Any]) -> str:
    """A line for each step, then the numbers that are asked for."""
    steps: Steps = data["steps"]
    width = max((len(name) for name in steps), default=0)
    lines = []
    for name, entry in steps.items():
        seconds = f"{entry['seconds']:6.0f} s" if "seconds" in entry else " " * 8
        said = entry.get("error", "").split("\n")[0]
        lines.append(f"{name:{width}}  {entry['status']:11}  {seconds}  {said}".rstrip())
    rows = [[t.what, t.value, t.wanted, _MET[t.met].strip("*")] for t in targets(steps)]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    lines.append("")
    for row in rows:
        cells = (f"{text:{width}}" for text, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(data: dict[str, Any]) -> str:
    """Device, date, command, and all that was measured."""
    steps: Steps = data["steps"]
    tables = (_targets_table(steps), _speeds(steps), "\n".join(_notes(data)), _checks(steps))
    kernels = kernel_tables(steps, f"{PROXY}.")
    parts = [_heading(data), *tables, *kernels, _not_done(steps)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(data: dict[str, Any]) -> str:
    facts = data["steps"].get("environment", {}).get("result", {})
    gpu = facts.get("gpu", {})
    name = gpu.get("name") or f"{facts.get('cpu', 'unknown machine')}, a rehearsal without a GPU"
    lines = [f"### {name}, {facts.get('date', 'no date')[:10]}", ""]
    details = [
        ("commit", data["of"].get("commit")),
        ("compute capability", gpu.get("compute_cap")),
        ("multiprocessors", facts.get("multiprocessors")),
        ("memory", gpu.get("memory.total")),
        ("clock at most", gpu.get("clocks.max.sm")),
        ("driver", gpu.get("driver_version")),
        ("CUDA", facts.get("cuda")),
        ("cores", facts.get("cores")),
    ]
    lines.append(", ".join(f"{what} {value}" for what, value in details if value) + ".")
    commands = dict.fromkeys(call["command"] for call in data["calls"])
    lines.append("Made by " + ", ".join(f"`{command}`" for command in commands) + ".")
    return "\n".join(lines)


def _targets_table(steps: Steps) -> str:
    rows = [(t.what, t.value, t.wanted, _MET[t.met]) for t in targets(steps)]
    return table(("number", "measured", "wanted", "met"), rows)


def _speeds(steps: Steps) -> str:
    whole = list(pairs(steps))
    confined = {(p.kind, p.model, p.label): p for p in pairs(steps, f"{PROXY}.")}
    keys = dict.fromkeys([*((p.kind, p.model, p.label) for p in whole), *confined])
    if not keys:
        return ""
    all_of = {(p.kind, p.model, p.label): p for p in whole}
    header = ["tokens/s", "hooks on", "off", "ratio"]
    if confined:
        header += ["proxy: on", "off", "ratio"]
    rows = []
    for key in keys:
        row = [f"{key[1]} {key[0]}: {key[2]}", *_cells(all_of.get(key))]
        rows.append(row + _cells(confined.get(key)) if confined else row)
    return table(header, rows)


def _notes(data: dict[str, Any]) -> Iterator[str]:
    results = [
        result
        for entry in data["steps"].values()
        for result in entry["result"].get("results", [])[:1]
    ]
    if results:
        yield "Speeds are medians, ratios the median of those of the pairs."
        hooks = results[0]["engine"]["hooks"]
        yield "Hooks: " + ", ".join(f"{name} {state}" for name, state in hooks.items()) + "."
    for name, entry in data["steps"].items():
        kind, _, shape = name.partition(".")
        if kind == "decode" and (first := entry["result"].get("results", [])[:1]):
            host_us = 1e3 * first[0]["latency"]["host_ms"]["p50"]
            yield (
                f"Host part of a step by the engine's log (median): {host_us:.0f} µs"
                f" at {shape} decode."
            )
    if proxy := data.get("proxy"):
        yield (
            f"Proxy of the board: MPS at {proxy['percentage']} %,"
            f" {proxy['multiprocessors']} of {proxy['of']} multiprocessors."
        )
    for name in ("bandwidth", f"{PROXY}.bandwidth"):
        found = data["steps"].get(name, {}).get("result", {})
        if found.get("copy_gb_s"):
            where = "the proxy" if name.startswith(PROXY) else "the GPU"
            yield f"Copies on {where}: {found['copy_gb_s']:.0f} GB/s read and written."


def _cells(pair: Pair | None) -> list[str]:
    if pair is None:
        return ["–"] * 3
    speeds = ["–" if value is None else f"{value:.1f}" for value in (pair.on, pair.off)]
    return [*speeds, "–" if pair.ratio is None else f"{pair.ratio:.3f}"]


def _checks(steps: Steps) -> str:
    rows = []
    for name, entry in steps.items():
        result = entry["result"]
        if "tests" in result:
            passed = result["tests"] - result["failed"] - result["skipped"]
            counts = f"{passed} passed, {result['failed']} failed, {result['skipped']} skipped"
            rows.append((name, counts))
        elif name.startswith("sanitizer") and result:
            rows.append((name, f"{result['errors']} errors"))
    return table(("check", "result"), rows) if rows else ""


def _not_done(steps: Steps) -> str:
    lines = [
        f"- {name}: {entry['status']}: {entry.get('error', '').splitlines()[0]}"
        for name, entry in steps.items()
        if entry["status"] != "done" and entry.get("error")
    ]
    return "\n".join(["Not measured, or failed:", "", *lines]) if lines else ""
