#!/usr/bin/env python3
"""Whether `orin-llm bench serve` measures a server with known delays right: on a quiet machine.

    scripts/check_bench_serve.py
    scripts/check_bench_serve.py --requests 64 --within 3

A stub server in a process of its own answers with known delays; the load generator runs as a user
would run it. Prints for each figure what is known, when the server itself really sent (it is late
on a busy machine, too), and what was measured. Exit status 1 where a figure is further than
`--within` per cent from what is known.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

STUB = Path(__file__).resolve().parent.parent / "tests" / "stub_server.py"
TOKENS = 16  # of an answer


@dataclass(frozen=True)
class Case:
    """A server's delays, and the load on it."""

    name: str
    first_ms: float
    gap_ms: float
    load: tuple[str, ...]
    bundle: int = 1

    def known(self) -> dict[str, float]:
        """The figures that these delays make."""
        events = -(-TOKENS // self.bundle)
        return {
            "ttft_ms": self.first_ms,
            "itl_ms": self.gap_ms,
            "tpot_ms": (events - 1) * self.gap_ms / (TOKENS - 1),
            "e2el_ms": self.first_ms + (events - 1) * self.gap_ms,
        }


CASES = (
    Case("one user", 100, 25, ("-np", "1")),
    Case("16 users", 300, 50, ("-np", "16")),
    Case("20 a second, at random", 150, 50, ("--rate", "20")),
    Case("four tokens an event", 100, 100, ("-np", "4"), bundle=4),
    Case("like a long prompt", 2000, 25, ("-np", "4")),
)


@contextmanager
def stub(case: Case) -> Iterator[str]:
    """The address of a server with these delays."""
    delays = {"first-ms": case.first_ms, "gap-ms": case.gap_ms, "bundle": case.bundle}
    flags = [f"--{name}={value}" for name, value in delays.items()]
    process = subprocess.Popen(
        [sys.executable, str(STUB), *flags], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()


def measured(case: Case, url: str, requests: int) -> dict[str, Any]:
    """The latencies that the command tells."""
    done = subprocess.run(
        [sys.executable, "-m", "orin_llm.cli", "bench", "serve", url, *case.load, "-p", "64",
         "-n", str(TOKENS), "--requests", str(requests), "--warmup", "0", "--json", "-q"],
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    latency: dict[str, Any] = json.loads(done.stdout)["results"][0]["latency"]
    return latency


def sent(url: str, requests: int) -> dict[str, float]:
    """The same figures by the times at which the server really sent."""
    with urllib.request.urlopen(f"{url}/sent") as reply:
        answers = [times for times in json.load(reply) if len(times) > 1][-requests:]
    gaps = [later - earlier for times in answers for earlier, later in pairwise(times)]
    return {
        "ttft_ms": mean(times[0] for times in answers),
        "itl_ms": mean(gaps),
        "tpot_ms": mean((times[-1] - times[0]) / (TOKENS - 1) for times in answers),
        "e2el_ms": mean(times[-1] for times in answers),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=32, help="of each case")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--within", type=float, default=3.0, help="per cent")
    asked = parser.parse_args()
    wrong = 0
    print(f"{'case':<24}{'figure':<9}{'known':>10}{'sent':>10}{'measured':>10}{'off by':>9}")
    for case in (case for case in CASES if case.name.startswith(asked.only)):
        with stub(case) as url:
            found = measured(case, url, asked.requests)
            really = sent(url, asked.requests)
        for name, known in case.known().items():
            mine = found[name]["mean"]
            off = 100 * (mine / known - 1)
            wrong += abs(off) > asked.within
            print(
                f"{case.name:<24}{name:<9}{known:>10.2f}{really[name]:>10.2f}{mine:>10.2f}"
                f"{off:>8.2f}%{'  wrong' * (abs(off) > asked.within)}",
                flush=True,
            )
        lag = found["client_lag_ms"]
        print(f"{'':<24}the load generator woke up {lag['p99']:.2f} ms too late (p99)")
    print(f"{wrong} figures are further than {asked.within:g} % from what is known")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
