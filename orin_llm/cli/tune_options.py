"""The flags of `orin-llm tune`: what is wanted, how it is searched, and what is not tuned."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orin_llm.cli.option_groups import NOTHING_GIVEN, Given
from orin_llm.cli.options import (
    MODEL,
    ChunkSizeFlag,
    CpusFlag,
    EngineOptions,
    FlashFlag,
    GpuLayersFlag,
    HooksFlag,
    KernelsFlag,
    KvMemoryFlag,
    KvTypeFlag,
    MmapFlag,
    PageSizeFlag,
    ThreadsFlag,
    flag,
)
from orin_llm.cli.profile_use import given_fields
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.engine import EngineConfig
    from orin_llm.gguf.header import Header
    from orin_llm.tune.goal import Goal
    from orin_llm.tune.plan import Plan
    from orin_llm.tune.work import Work

GOAL, SEARCH, WORK, RESULT = "Goal", "Search", "What is measured", "Result"
_UNIT_S = {"": 60.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?\s*")
_SHARE_OF_ANSWER = 8  # of a context that is too short for the default lengths


@dataclass(frozen=True)
class GoalOptions:
    """What is wanted."""

    goal: Annotated[
        str,
        flag(
            "--goal",
            panel=GOAL,
            metavar="[ttft|tpot|throughput|energy|balanced]",
            help="What is to be best; balanced: the first three, each alike.",
        ),
    ] = "balanced"
    max_tpot: Annotated[
        float | None, flag("--max-tpot", panel=GOAL, metavar="MS", help="TPOT of one stream.")
    ] = None
    max_ttft: Annotated[
        float | None,
        flag("--max-ttft", panel=GOAL, metavar="MS", help="TTFT of the longest prompt."),
    ] = None
    power: Annotated[
        float | None, flag("--power", panel=GOAL, metavar="W", help="Mean power of a run.")
    ] = None
    max_ppl_ratio: Annotated[
        float,
        flag(
            "--max-ppl-ratio",
            panel=GOAL,
            metavar="RATIO",
            help="Perplexity that a KV type may cost; 1.005: half a percent.",
        ),
    ] = 1.005

    def read(self) -> Goal:
        """UsageError where a value cannot be."""
        from orin_llm.tune.goal import Constraints, Goal

        return Goal(
            self.goal, Constraints(self.max_ttft, self.max_tpot, self.power, self.max_ppl_ratio)
        )


@dataclass(frozen=True)
class SearchOptions:
    """How it is searched."""

    only: Annotated[
        str | None,
        flag(
            "--only",
            panel=SEARCH,
            metavar="NAMES",
            help="Tune these alone: chunk_size,page_size; --dry-run shows which there are.",
        ),
    ] = None
    trials: Annotated[
        int | None,
        flag("--trials", panel=SEARCH, help="Candidates, at most, before the best are compared."),
    ] = None
    time_limit: Annotated[
        str | None,
        flag(
            "--time-limit",
            panel=SEARCH,
            metavar="TIME",
            help="30m, 2h or 90s: then the best so far are compared, and it ends.",
        ),
    ] = None
    repetitions: Annotated[
        int, flag("--repetitions", panel=SEARCH, help="Of the last comparison, at least.")
    ] = 5
    full: Annotated[
        bool, flag("--full", panel=SEARCH, help="Measure every combination, with all repetitions.")
    ] = False
    seed: Annotated[int, flag("--seed", panel=SEARCH, help="Of what is drawn.")] = 0
    resume: Annotated[
        bool | None,
        flag(
            "--resume/--fresh",
            panel=SEARCH,
            help="Go on with the earlier search, or begin anew; if not given: go on with one that "
            "was interrupted.",
        ),
    ] = None
    dry_run: Annotated[
        bool, flag("--dry-run", panel=SEARCH, help="Say what would be tuned; measure nothing.")
    ] = False
    anyway: Annotated[
        bool,
        flag("--anyway", panel=SEARCH, help="Tune although the doctor finds what makes it slow."),
    ] = False

    def plan(self) -> Plan:
        """UsageError where a value cannot be."""
        from orin_llm.tune.plan import Plan

        limit_s = None if self.time_limit is None else seconds(self.time_limit)
        return Plan(self.full, self.repetitions, self.trials, limit_s, self.seed)


@dataclass(frozen=True)
class WorkOptions:
    """What one repetition computes."""

    prompt_tokens: Annotated[
        str | None,
        flag(
            "-p",
            "--prompt-tokens",
            panel=WORK,
            help="Prompts whose TTFT is measured; 512,2048 where the context holds them.",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        flag("-n", "--max-tokens", panel=WORK, help="Tokens of the answer whose TPOT is measured."),
    ] = None
    parallel: Annotated[
        int, flag("-np", "--parallel", panel=WORK, min=1, max=64, help="Streams at once.")
    ] = 16

    def read(self, header: Header, n_ctx: int) -> Work:
        """What fits in the context where nothing is said.

        Raises UsageError where a value cannot be.
        """
        from orin_llm.bench.lengths import parse_numbers
        from orin_llm.gguf.footprint import DEFAULT_MAX_CTX
        from orin_llm.models.describe import context
        from orin_llm.tune.work import Work

        plain = Work()
        room = n_ctx or context(header) or DEFAULT_MAX_CTX
        answer = self.max_tokens
        if answer is None:
            answer = min(plain.answer, max(2, room // _SHARE_OF_ANSWER))
        if self.prompt_tokens is None:
            prompts = tuple(n for n in plain.prompts if n + answer <= room) or (room - answer,)
        else:
            prompts = tuple(sorted(set(parse_numbers(self.prompt_tokens, "-p", 1))))
        of_stream = min(plain.stream_prompt, prompts[-1])
        work = Work(prompts, answer, self.parallel, of_stream, min(plain.stream_answer, answer))
        if work.n_ctx > room:
            raise UsageError(
                f"a prompt of {prompts[-1]} tokens and an answer of {answer} need {work.n_ctx} "
                f"tokens of context, and there are {room}: shorten them (-p, -n), or raise -c"
            )
        return work


@dataclass(frozen=True)
class FixedOptions:
    """How engines are made. What is given is kept and not tuned."""

    ctx_size: Annotated[
        int, flag("-c", "--ctx-size", panel=MODEL, help="Tokens of context; 0: as measured.")
    ] = 0
    threads: ThreadsFlag = 0
    cpus: CpusFlag = ""
    gpu_layers: GpuLayersFlag = -1
    kv_type: KvTypeFlag = "f16"
    chunk_size: ChunkSizeFlag = 512
    page_size: PageSizeFlag = 16
    kv_memory: KvMemoryFlag = None
    flash: FlashFlag = "auto"
    hooks: HooksFlag = "all"
    kernels: KernelsFlag = None
    mmap: MmapFlag = True
    given: Given = NOTHING_GIVEN

    def config(self) -> EngineConfig:
        """What is not tuned; UsageError where a value cannot be."""
        if self.gpu_layers > 0:
            raise UsageError(
                "some layers on the GPU (-ngl) are not tuned: a profile is for all of them or none"
            )
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return EngineOptions(**values, no_profile=True).config()

    @property
    def kept(self) -> set[str]:
        """The fields of `EngineConfig` that are given."""
        return given_fields(self)


@dataclass(frozen=True)
class ResultOptions:
    """What is left when it has ended."""

    name: Annotated[
        str | None,
        flag("--name", panel=RESULT, help="Of the profile; of model, mode and goal if not given."),
    ] = None
    folder: Annotated[
        Path | None,
        flag(
            "--folder",
            panel=RESULT,
            metavar="DIR",
            help="For the study, the report and its pictures; one in the data folder if not given.",
        ),
    ] = None
    as_json: Annotated[bool, flag("--json", panel=RESULT, help="Print one JSON object.")] = False
    quiet: Annotated[bool, flag("-q", "--quiet", panel=RESULT, help="No progress on stderr.")] = (
        False
    )


def seconds(text: str) -> float:
    """`90s`, `30m`, `1h30m`; a number alone is minutes. UsageError for what is none of these."""
    parts = _PART.findall(text)
    if not parts or "".join("".join(part) for part in parts) != re.sub(r"\s", "", text):
        raise UsageError(f"--time-limit {text!r}: expected such as 30m, 2h or 90s")
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts)
