"""The fault guide: its form, and that everything it names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

from orin_llm.cli.main import SUBCOMMANDS, TWO_WORDS, app
from orin_llm.engine import Engine, EngineConfig
from orin_llm.engine.config import HOOK_NAMES
from orin_llm.errors import OrinError
from orin_llm.explain import guide
from orin_llm.explain.guide import Entry, entries_of_check, name_of, parse_guide, read_guide

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MARKDOWN = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
CODE = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", MARKDOWN)]
CODE += re.findall(r"^    (.+)$", MARKDOWN, re.MULTILINE)

# Threads in which users of an AGX Orin met what they met; each has to be in the guide.
THREADS = {
    "ggml-org/llama.cpp": (
        *(1455, 4680, 4687, 7302, 7399, 9533, 13856, 14396, 15034, 16308),
        *(23007, 23732, 23747, 24457, 26081, 29142),
    ),
    "ollama/ollama": (1289, 1979, 3098, 4861, 6866, 9503, 12283, 16602, 18067),
    "vllm-project/vllm": (8708, 40322, 48140),
    "dusty-nv/jetson-containers": (412, 532, 558, 616),
    "rbonghi/jetson_stats": (344, 470, 705, 715, 863, 885, 889),
    "0xShug0/audio.cpp": (12,),
    "abetlen/llama-cpp-python": (674,),
    "ID-Robots/clawbox": (61,),
    "mlc-ai/mlc-llm": (3328,),
    "Mozilla-Ocho/llamafile": (1051,),
    "NVIDIA/TensorRT": (3663,),
    "paiml/realizar": (120,),
    "tiiuae/ghaf": (2071,),
    "withcatai/node-llama-cpp": (560,),
}

ENTRY = """## Group

### A title, with 1.2

- **Symptom** It is
  slow.
- **Also** one, two words
- **Messages** `it failed: …` · `other`
- **Log** See [more](#a-title-with-12) and [pages.md](pages.md).
- **Trace** None.
- **Fix** `do it`
- **Links** [a/b.c#12](https://github.com/a/b.c/issues/12)
- **Doctor** `power mode`, `GPU`
"""


def test_an_entry_is_read_with_all_its_parts() -> None:
    assert parse_guide(ENTRY) == (
        Entry(
            name="a-title-with-12",
            title="A title, with 1.2",
            group="Group",
            symptom="It is slow.",
            log="See more (`orin-llm explain a-title-with-12`) and docs/pages.md.",
            trace="None.",
            fix="`do it`",
            also=("one", "two words"),
            messages=("it failed: …", "other"),
            links=("https://github.com/a/b.c/issues/12",),
            checks=("power mode", "GPU"),
        ),
    )


@pytest.mark.parametrize(
    "old, new, reason",
    [
        ("- **Fix** `do it`\n", "", "Fix is missing"),
        ("- **Trace**", "- **Traces**", "expected `- "),
        ("- **Trace** None.", "- **Log** None.", "each once"),
        ("`other`", "other", "Messages: expected code"),
        ("[a/b.c#12]", "[a/b.c#13]", "Links: expected [owner/repo#1](its address)"),
        ("## Group", ENTRY, "two entries are named a-title-with-12"),
    ],
)
def test_what_has_another_form_is_refused(old: str, new: str, reason: str) -> None:
    assert old in ENTRY
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_guide(ENTRY.replace(old, new))


def test_without_the_guide_explain_says_so_and_the_doctor_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for place in ("_INSTALLED", "_CHECKOUT"):
        monkeypatch.setattr(guide, place, tmp_path / "troubleshooting.md")
    read_guide.cache_clear()
    try:
        with pytest.raises(OrinError, match="is missing: install orin-llm again"):
            read_guide()
        assert entries_of_check("L4T") == []
    finally:
        read_guide.cache_clear()


def test_every_thread_is_linked() -> None:
    links = {link for entry in read_guide() for link in entry.links}
    wanted = {
        f"https://github.com/{repo}/issues/{number}"
        for repo, numbers in THREADS.items()
        for number in numbers
    }
    assert wanted - links == set()


def test_every_link_within_the_documentation_leads_somewhere() -> None:
    for file, anchor in re.findall(r"\]\(([\w./-]*)#?([\w-]*)\)", MARKDOWN):
        target = DOCS / (file or "troubleshooting.md")
        headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert not anchor or anchor in map(name_of, headings), (file, anchor)


@cache
def command(path: tuple[str, ...]) -> Any:
    """The Click command of these names; the first may be two words, such as `bench serve`."""
    group: Any = get_command(app)
    for name in path:
        _, group, _ = group.resolve_command(click.Context(group), name.split())
    return group


def options_of(one: Any) -> set[str]:
    return {
        option
        for parameter in one.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-")
    } | {"-h", "--help"}


@cache
def all_options() -> frozenset[str]:
    found = set[str]()
    for name in (*SUBCOMMANDS, *TWO_WORDS):
        one = command((name,))
        found |= options_of(one)
        for below in getattr(one, "commands", ()):
            found |= options_of(command((name, below)))
    return frozenset(found)


def commands_in(code: str) -> Iterator[list[str]]:
    """The arguments of each call of orin-llm in a line."""
    for part in re.split(r"&&|\||;", code):
        match = re.match(r"\s*(?:LC_ALL=\S+ )?(?:sudo )?(?:\.venv/bin/)?orin-llm (.+)", part)
        if match and not match[1].startswith("…"):
            yield match[1].split()


CALLS = [arguments for code in CODE for arguments in commands_in(code)]


def test_the_guide_names_many_commands() -> None:
    assert len(CALLS) > 60


@pytest.mark.parametrize("arguments", CALLS, ids=" ".join)
def test_every_command_of_the_guide_exists_with_its_flags(arguments: list[str]) -> None:
    path: tuple[str, ...]
    first = " ".join(arguments[:2])
    first = first if first in TWO_WORDS else arguments[0]
    assert first in TWO_WORDS or first in SUBCOMMANDS
    path, arguments = (first,), arguments[len(first.split()) :]
    while arguments and arguments[0] in getattr(command(path), "commands", ()):
        path, arguments = (*path, arguments[0]), arguments[1:]
    flags = {a.split("=")[0] for a in arguments if a.startswith("-") and len(a) > 1}
    assert flags - options_of(command(path)) == set()
    changes = re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "setup.md").read_text(), re.MULTILINE)
    for flag, value in pairwise(arguments):
        assert (path[0], flag) != ("setup", "--only") or value in changes


def test_every_flag_that_stands_alone_exists() -> None:
    alone = {code.split()[0].split("=")[0] for code in CODE if re.match(r"--?[a-z]", code)}
    foreign = {"--flash-attn", "--runtime"}  # of llama.cpp and docker
    assert alone - foreign - all_options() == set()
    assert len(alone) > 15


def test_every_hook_variable_and_script_exists() -> None:
    for hooks in re.findall(r"--hooks[ =]-([a-z]+)", MARKDOWN):
        assert hooks in HOOK_NAMES
    known = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("orin_llm", "scripts", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".sh", ".md") and path.name != "troubleshooting.md"
    )
    for variable in re.findall(r"ORIN_LLM_[A-Z_]+", MARKDOWN):
        assert variable in known or variable == "ORIN_LLM_", variable
    for script in re.findall(r"scripts/\w+\.\w+", MARKDOWN):
        assert (ROOT / script).is_file(), script


def test_every_statistic_exists(tiny_model: Path) -> None:
    config = EngineConfig(n_ctx=64, gpu_layers=0, threads=1, publish=False)
    with Engine(tiny_model, config) as engine:
        stats = engine.stats()
    named = re.findall(r"`(requests|kv|tokens|lanes|steps)\.(\w+)`", MARKDOWN)
    assert len(named) > 15
    for group, name in named:
        assert name in stats[group], (group, name)


def test_every_check_of_doctor_exists_and_leads_to_an_entry() -> None:
    tables = (DOCS / "doctor.md").read_text(encoding="utf-8").split("## `--json`")[0]
    levels = {"missing", "hurts", "warning", "note", "unknown", "ok"}
    checks = set(re.findall(r"^\| `([^`]+)` \|", tables, re.MULTILINE)) - levels
    assert {check for entry in read_guide() for check in entry.checks} == checks


@pytest.mark.parametrize(
    "check, name",
    [
        ("GPU", "the-build-is-for-the-cpu-only"),
        ("CUDA driver", "the-gpu-is-not-found"),
        ("build", "the-module-does-not-load"),
        ("power mode", "half-of-the-gpu-is-off"),
        ("GPU units", "half-of-the-gpu-is-off"),
        ("GPU clock", "the-mode-is-set-and-nothing-changes"),
        ("jetson_clocks", "ttft-jumps"),
        ("memory clock", "the-memorys-clock-is-low"),
        ("L4T", "large-allocations-fail-on-l4t-3647"),
        ("largest block", "memory-is-in-fragments"),
        ("model", "the-model-does-not-fit"),
        ("memory", "the-process-is-killed"),
        ("swap", "swap-makes-everything-crawl"),
        ("disk", "loading-takes-long"),
    ],
)
def test_a_finding_leads_to_what_it_is_about_first(check: str, name: str) -> None:
    assert entries_of_check(check)[0].name == name
