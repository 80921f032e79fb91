"""The report of a tuning run, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orin_llm.bench.tables import table
from orin_llm.gguf.header import Header
from orin_llm.tune.kv_quality import KvQuality
from orin_llm.tune.outcome import Outcome, Verdict
from orin_llm.tune.report_facts import quantization_lines, rope_tables
from orin_llm.tune.report_tables import (
    CHUNK,
    MOST_ROWS,
    candidate_table,
    chunk_table,
    cut,
    has_knob,
    knob_table,
    page_table,
    passed_over,
    result_table,
    standings,
)

if TYPE_CHECKING:
    from orin_llm.tune.page_kernels import PageKernels

NOISY = 0.05
_DECISIONS = {
    "better": "better settings than the defaults were found",
    "noise": "nothing is better than the defaults beyond chance, and they are kept",
    "default": "the defaults are the best",
    "infeasible": "no settings were found",
    "unfinished": "not finished",
}


@dataclass(frozen=True)
class About:
    """What a report tells beside the outcome.

    Attributes:
        model: its name.
        file_name: of the model whose header this is.
        n_ctx: tokens of the engine's context; 0: the model's own, at most 8192.
        machine: names and values of what it was measured on.
        commands: what repeats it, by what it does.
        warnings: what the doctor found and the user went past.
        profile: the name under which the settings are kept; "": they are not.
        quality: what KV types cost, by their names.
        kernels: times of the processor's kernels, by page size; empty where they were not taken.
        pictures: file names by title.
    """

    model: str
    file_name: str
    header: Header
    n_ctx: int
    machine: Mapping[str, Any]
    commands: Mapping[str, str]
    warnings: Sequence[str] = ()
    profile: str = ""
    quality: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[int, PageKernels] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)


def report(outcome: Outcome, about: About) -> str:
    """The whole document. A dash in a table: not measured."""
    sections = [
        ("", _summary(outcome, about)),
        ("Result", [result_table(outcome), "A dash: not measured."]),
        ("Settings", [knob_table(outcome)]),
        ("TTFT by chunk size", [chunk_table(outcome), *_picture(about, "chunk")]),
        ("Page size", [*_pages(outcome, about), *_picture(about, "page")]),
        ("RoPE table", _rope(about)),
        ("Quantization", _quantization(outcome, about)),
        ("What limits it", _verdicts(outcome)),
        ("Everything that was measured", [*_measured(outcome), *_picture(about, "trials")]),
        ("To repeat it", _commands(about)),
    ]
    parts = [f"# {about.model}, tuned for {outcome.goal.name}"]
    for heading, body in sections:
        text = "\n".join(body).strip()
        if text:
            parts += [f"## {heading}", text] if heading else [text]
    return "\n\n".join(parts) + "\n"


def _summary(outcome: Outcome, about: About) -> list[str]:
    lines = [f"**{decision_text(outcome)}**", ""]
    if outcome.best is not None:
        cost = outcome.best.cost
        lines += [f"Chosen: {outcome.best.candidate.text}.", ""]
        if cost is not None and outcome.decision != "default":
            lines += [f"Cost, that of the default being 1: {cost.text}.", ""]
    if outcome.indistinguishable:
        names = "; ".join(candidate.text for candidate in outcome.indistinguishable[:5])
        lines += [f"Differ from it by no more than chance: {names}.", ""]
    if about.profile:
        lines += [f"Kept as the profile `{about.profile}`, which commands pick up here.", ""]
    lines += [f"**Measured in spite of:** {warning}\n" for warning in about.warnings]
    bounds = {n: v for n, v in outcome.goal.to_json().items() if v is not None and n != "goal"}
    facts = {**about.machine, "bounds": ", ".join(f"{n} {v:g}" for n, v in bounds.items())}
    facts["measured"] = f"{len(outcome.trials)} trials, {outcome.elapsed_s / 60:.1f} minutes"
    facts["noise"] = noise_text(outcome)
    rows = [[name, str(value)] for name, value in facts.items() if value not in (None, "")]
    return [*lines, table("", "", rows=rows)]


def decision_text(outcome: Outcome) -> str:
    """What came out, and why."""
    return f"{_DECISIONS[outcome.decision]}: {outcome.reason}"


def noise_text(outcome: Outcome) -> str:
    """How much one repetition differs from the next by chance."""
    text = f"{100 * outcome.noise:.1f} % of one repetition"
    if outcome.noise > NOISY:
        text += ": this machine is busy with other things, and small differences cannot be seen"
    return text


def quality_text(found: KvQuality) -> str:
    """`+0.12 % perplexity (± 0.05 %)`, and whether it is tried."""
    if found.ratio is None:
        return f"not tried: {found.note}"
    text = f"{100 * (found.ratio - 1):+.2f} % perplexity"
    if found.uncertainty is not None:
        text += f" (± {100 * found.uncertainty:.2f} %)"
    return text if found.is_allowed else f"{text}, not tried: {found.note}"


def _pages(outcome: Outcome, about: About) -> list[str]:
    rows = page_table(outcome, about.kernels)
    if not rows:
        return []
    return [
        rows,
        "Attention: the kernel alone, in one layer, of a token behind the longest prompt. Write: "
        "storing a token's keys and values there, of 64 written at once. Both are timed where the "
        "processor computes; on a GPU `orin-llm trace --nsys` does that. Decode step: the "
        "computation of a step that decodes one token behind the longest prompt. Prefill: the same "
        "of a prompt token. Waste: room in the pages that no token has, in the fullest step.",
    ]


def _rope(about: About) -> list[str]:
    found = rope_tables(about.header, about.n_ctx)
    lines = [f"- {table_.text}" for table_ in found]
    return ["max_seq_len × head_dim / 2 × 2 × 4 bytes:", "", *lines] if lines else []


def _quantization(outcome: Outcome, about: About) -> list[str]:
    knobs = {knob.name: knob for knob in outcome.space.knobs}
    kv_types = [str(v) for v in knobs["kv_type"].values] if "kv_type" in knobs else ["f16"]
    lines = quantization_lines(about.header, about.file_name, kv_types)
    return [*lines, *(f"- KV cache {name}: {text}" for name, text in about.quality.items())]


def _verdicts(outcome: Outcome) -> list[str]:
    told = [outcome.best, outcome.default]
    told += cut(outcome, CHUNK) if has_knob(outcome, CHUNK) else []
    lines = [
        f"- {standing.candidate.text}: {verdict_text(verdict)}"
        for standing in told
        if standing is not None
        for verdict in standing.verdicts
    ]
    nothing = ["Not judged: nothing here reads the load of GPU and memory."]
    return [*dict.fromkeys(lines)] or nothing


def verdict_text(verdict: Verdict) -> str:
    """`prefill is bound by bandwidth (EMC 93 %, GPU 60 %): larger chunks no longer pay`."""
    bound = "not clearly bound" if verdict.bound == "unknown" else f"bound by {verdict.bound}"
    advice = f": {verdict.advice}" if verdict.advice else ""
    return f"{verdict.phase} is {bound} ({verdict.reason}){advice}"


def _measured(outcome: Outcome) -> list[str]:
    lines = [candidate_table(outcome)]
    found = len(standings(outcome))
    if found > MOST_ROWS:
        lines.append(f"The best {MOST_ROWS} of {found}; the study has all.")
    reasons = passed_over(outcome.trials)
    if reasons:
        lines += ["Passed over:", "", *(f"- {count} × {reason}" for reason, count in reasons)]
    return lines


def _commands(about: About) -> list[str]:
    return [f"{what}:\n\n    {command}\n" for what, command in about.commands.items()]


def _picture(about: About, name: str) -> list[str]:
    if name not in about.pictures:
        return []
    return ["", f"![{name}]({about.pictures[name]})"]
