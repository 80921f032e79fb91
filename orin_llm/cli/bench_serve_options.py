"""The flags of `orin-llm bench serve`: the server, and the load on it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from orin_llm.cli.options import flag
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.bench.serve.arrivals import Arrivals
    from orin_llm.bench.serve.load import Load, Recorded

SERVER, LOAD = "Server", "Load"
_MAX_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class ServerOptions:
    """How the server is asked."""

    model: Annotated[
        str,
        flag("--model", "--served-model", panel=SERVER, help="As it calls it; else its first one."),
    ] = ""
    endpoint: Annotated[
        str,
        flag(
            "--endpoint",
            panel=SERVER,
            metavar="[chat|completions]",
            help="/v1/chat/completions or /v1/completions.",
        ),
    ] = "chat"
    api_key: Annotated[
        str,
        flag(
            "--api-key", panel=SERVER, help="Sent as a bearer's token; better by ORIN_LLM_API_KEY."
        ),
    ] = ""
    body: Annotated[
        str | None,
        flag(
            "--body",
            panel=SERVER,
            metavar="JSON",
            help='Fields of every request, such as {"cache_prompt": false}; null leaves one out.',
        ),
    ] = None
    timeout: Annotated[
        float, flag("--timeout", panel=SERVER, help="Seconds until a request has failed.")
    ] = 300.0

    def more(self) -> dict[str, Any]:
        """The fields of --body; UsageError where it, or another flag, cannot be."""
        from orin_llm.bench.serve.client import ENDPOINTS

        if self.endpoint not in ENDPOINTS:
            raise UsageError(f"no endpoint {self.endpoint!r}: choose one of {', '.join(ENDPOINTS)}")
        if not 0 < self.timeout <= _MAX_SECONDS:
            raise UsageError(f"--timeout {self.timeout:g}: expected 0 … {_MAX_SECONDS:g} seconds")
        if self.body is None:
            return {}
        try:
            fields = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--body is no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise UsageError(f'--body {self.body}: expected a JSON object, such as {{"n": 1}}')
        return fields


@dataclass(frozen=True)
class LoadOptions:
    """Which requests are made, and when."""

    concurrency: Annotated[
        str | None,
        flag(
            "-np",
            "--max-concurrency",
            "--concurrency",
            panel=LOAD,
            help="Users in a closed loop; with --rate or --trace the most requests at once. A list "
            "or range is a sweep.",
        ),
    ] = None
    rate: Annotated[
        str | None,
        flag(
            "--rate", panel=LOAD, help="Requests a second, at random; a list is a sweep: 0.5,1,2."
        ),
    ] = None
    burstiness: Annotated[
        float,
        flag(
            "--burstiness",
            panel=LOAD,
            help="Of --rate: 1 is a Poisson process, less comes in bursts, more is more even.",
        ),
    ] = 1.0
    fixed: Annotated[
        bool, flag("--fixed", panel=LOAD, help="Of --rate: all gaps are the same.")
    ] = False
    prompt_tokens: Annotated[
        str,
        flag(
            "-p",
            "--prompt",
            "--prompt-tokens",
            panel=LOAD,
            help="Tokens of a prompt, about; 64..2048: drawn for each request.",
        ),
    ] = "512"
    max_tokens: Annotated[
        str,
        flag("-n", "--gen", "--max-tokens", panel=LOAD, help="Tokens of an answer, or a range."),
    ] = "128"
    dataset: Annotated[
        Path | None,
        flag(
            "--dataset",
            panel=LOAD,
            metavar="FILE",
            help='JSON lines with {"prompt": …} or {"messages": …}, in place of drawn words.',
        ),
    ] = None
    trace: Annotated[
        Path | None,
        flag(
            "--trace",
            panel=LOAD,
            metavar="FILE",
            help="JSONL or CSV with arrival_ms, prompt_tokens, max_tokens.",
        ),
    ] = None
    requests: Annotated[
        int | None,
        flag(
            "--requests", panel=LOAD, help="That count, of each load; else 4 a user, 16 at least."
        ),
    ] = None
    duration: Annotated[
        float | None, flag("--duration", panel=LOAD, help="Seconds in which requests are sent.")
    ] = None
    ramp: Annotated[
        float,
        flag(
            "--ramp", panel=LOAD, help="Seconds before, in which the load grows; they do not count."
        ),
    ] = 0.0
    goodput: Annotated[
        str | None,
        flag(
            "--goodput",
            panel=LOAD,
            metavar="ttft:MS,tpot:MS",
            help="Bounds that a good request meets; also e2el:MS.",
        ),
    ] = None

    def loads(self, endpoint: str) -> tuple[Load, ...]:
        """All combinations; UsageError where a flag cannot be."""
        from orin_llm.bench.lengths import parse_lengths, parse_numbers
        from orin_llm.bench.serve.goodput import Goodput
        from orin_llm.bench.serve.load import Load

        if self.requests is not None and self.requests < 1:
            raise UsageError(f"--requests {self.requests}: expected 1 or more")
        _check_seconds("--duration", self.duration)
        _check_seconds("--ramp", self.ramp or None)
        arrivals = self._arrivals()
        recorded = self._recorded()
        users: list[int | None] = [None]
        if self.concurrency is not None:
            users = list(parse_numbers(self.concurrency, "--concurrency", 1))
        elif arrivals == [None] and not (recorded and recorded.trace):
            users = [1]
        return tuple(
            Load(
                endpoint=endpoint,
                prompt=prompt,
                answer=answer,
                arrivals=arrival,
                max_concurrency=most,
                requests=self.requests,
                duration_s=self.duration,
                ramp_s=self.ramp,
                recorded=recorded,
                goodput=None if self.goodput is None else Goodput.parse(self.goodput),
            )
            for prompt, answer, arrival, most in product(
                parse_lengths(self.prompt_tokens, "-p"),
                parse_lengths(self.max_tokens, "-n"),
                arrivals,
                users,
            )
        )

    def _arrivals(self) -> list[Arrivals | None]:
        from orin_llm.bench.serve.arrivals import Arrivals

        if self.rate is None:
            if self.fixed or self.burstiness != 1.0:
                raise UsageError("--fixed and --burstiness say how a --rate comes: give one")
            return [None]
        if self.trace is not None:
            raise UsageError("--rate and --trace both say when requests come: choose one of them")
        if self.fixed and self.burstiness != 1.0:
            raise UsageError("--fixed has no --burstiness: choose one of them")
        burstiness = None if self.fixed else self.burstiness
        return [Arrivals(rate, burstiness, self.ramp) for rate in _rates(self.rate)]

    def _recorded(self) -> Recorded | None:
        from orin_llm.bench.serve.dataset import read_dataset
        from orin_llm.bench.serve.load import Recorded
        from orin_llm.bench.trace import read_trace

        if self.trace is not None and self.dataset is not None:
            raise UsageError("--trace and --dataset both say what is asked: choose one of them")
        if self.trace is not None:
            if self.ramp:
                raise UsageError("--ramp has no place with --trace, which says when requests come")
            return Recorded(self.trace.name, trace=read_trace(self.trace))
        if self.dataset is not None:
            return Recorded(self.dataset.name, dataset=read_dataset(self.dataset))
        return None


def _rates(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--rate {text}: expected numbers, such as 2 or 0.5,1,2,4") from None


def _check_seconds(name: str, value: float | None) -> None:
    if value is not None and not 0 < value <= _MAX_SECONDS:  # nor what is no number
        raise UsageError(f"{name} {value:g}: expected 0 … {_MAX_SECONDS:g} seconds")
