"""From flags to scenarios: every list and range of the flags with every other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from orin_llm.bench.interference import Interference
from orin_llm.bench.lengths import parse_lengths, parse_numbers
from orin_llm.bench.shared_prefix import SharedPrefix
from orin_llm.bench.starts import CACHES, Cache
from orin_llm.bench.streams import OneToken, Streams, Traced
from orin_llm.bench.trace import read_trace
from orin_llm.bench.workload import Scenario
from orin_llm.errors import UsageError

# What each workload takes, and what it takes where nothing is said.
DEFAULTS = {
    "single": {"-p": "512", "-n": "128", "-d": "0"},
    "concurrent": {"-np": "4", "-p": "512", "-n": "128", "-d": "0"},
    "interference": {
        "-np": "4", "-p": "64", "-n": "128", "--long-prompt": "4096", "--short-prompt": "32"
    },
    "shared-prefix": {"-np": "4", "-p": "32", "-n": "16", "--system-tokens": "1500"},
    "load": {"-p": "32", "--page-cache": ",".join(CACHES)},
}  # fmt: skip
_TRACE_FLAGS = {"-np": "4"}


def scenarios(
    workload: str, given: dict[str, str], trace: Path | None = None
) -> tuple[Scenario, ...]:
    """The scenarios that a workload's flags make.

    Args:
        given: the flags that were given, by the names that DEFAULTS has.
        trace: for concurrent: a file that says when requests come and how long they are.

    Raises:
        UsageError: there is no such workload, it takes no such flag, or a value cannot be.
    """
    if workload not in DEFAULTS:
        raise UsageError(
            f"no workload {workload!r}: choose one of {', '.join(DEFAULTS)}; or bench serve URL, "
            "bench show FILE"
        )
    if trace is not None and workload != "concurrent":
        raise UsageError(f"--trace has no place in {workload}: it is for concurrent")
    defaults = DEFAULTS[workload] if trace is None else _TRACE_FLAGS
    for flag in given:
        if flag not in defaults:
            what = f"{workload} --trace" if trace else workload
            raise UsageError(f"{flag} has no place in {what}: it takes {', '.join(defaults)}")
    flags = {**defaults, **given}
    if trace is not None:
        requests = read_trace(trace)
        return tuple(Traced(trace, requests, n) for n in parse_numbers(flags["-np"], "-np", 1))
    return tuple(_combinations(workload, flags))


def caches(given: dict[str, str]) -> tuple[Cache, ...]:
    """The states of the page cache that load is to start in.

    Raises:
        UsageError: there is no such state.
    """
    names = [name.strip() for name in {**DEFAULTS["load"], **given}["--page-cache"].split(",")]
    for name in names:
        if name not in CACHES:
            raise UsageError(f"--page-cache has {name!r}: expected {' or '.join(CACHES)}, or both")
    return tuple(cache for cache in CACHES if cache in names)


def _combinations(workload: str, flags: dict[str, str]) -> Iterator[Scenario]:
    if workload == "load":
        for length in parse_numbers(flags["-p"], "-p", 1):
            yield OneToken(length)
        return
    prompts, answers = parse_lengths(flags["-p"], "-p"), parse_lengths(flags["-n"], "-n")
    least = 2 if workload == "shared-prefix" else 1
    parallel = parse_numbers(flags.get("-np", "1"), "-np", least)
    if workload in ("single", "concurrent"):
        depths = parse_numbers(flags["-d"], "-d")
        for streams, depth, prompt, answer in product(parallel, depths, prompts, answers):
            yield Streams(streams, prompt, answer, depth)
    elif workload == "interference":
        longs = parse_numbers(flags["--long-prompt"], "--long-prompt", 1)
        shorts = parse_numbers(flags["--short-prompt"], "--short-prompt", 1)
        for streams, prompt, answer, long, short in product(
            parallel, prompts, answers, longs, shorts
        ):
            yield Interference(streams, prompt, answer, long, short)
    else:
        systems = parse_numbers(flags["--system-tokens"], "--system-tokens", 1)
        for requests, system, prompt, answer in product(parallel, systems, prompts, answers):
            yield SharedPrefix(requests, system, prompt, answer)
