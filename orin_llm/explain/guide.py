"""The fault guide as data. Its one source is docs/troubleshooting.md, which ships in the package.

An entry is a heading of the third level and a list whose items begin with a label in bold:

    ### TTFT jumps
    - **Symptom** …      what is seen
    - **Also** a, b      other words for it, by which it is found
    - **Messages** `a` · `b …`   what programs print; `…` stands for anything
    - **Log** …          what to look for in the log
    - **Trace** …        what to look at in a trace or in the sensors
    - **Fix** …          what to do
    - **Links** [a/b#1](https://…)   threads of others
    - **Doctor** `check`         checks of `orin-llm doctor` that find it

Also, Messages, Links and Doctor may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from orin_llm.errors import OrinError

_INSTALLED = Path(__file__).with_name("troubleshooting.md")
_CHECKOUT = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
_LABELS = ("Symptom", "Also", "Messages", "Log", "Trace", "Fix", "Links", "Doctor")
_NEEDED = ("Symptom", "Log", "Trace", "Fix")
_ITEM = re.compile(r"- \*\*(\w+)\*\* (.+)")
_LINK = re.compile(r"\[([^]]+)\]\(([^)#]*)(?:#([^)]*))?\)")
_THREAD = re.compile(
    r"\[(?P<repo>[\w.-]+/[\w.-]+)#(?P<n>\d+)\]"
    r"\((https://github\.com/(?P=repo)/issues/(?P=n))\)"
)


@dataclass(frozen=True)
class Entry:
    """One symptom. Texts have no Markdown but for code in backticks.

    Attributes:
        name: of the heading, as its link has it: `ttft-jumps`.
        group: the heading above.
        also: other words for it.
        messages: what programs print; `…` stands for anything.
        links: addresses of threads where others met it.
        checks: of `orin-llm doctor`, which find it.
    """

    name: str
    title: str
    group: str
    symptom: str
    log: str
    trace: str
    fix: str
    also: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}


@cache
def read_guide() -> tuple[Entry, ...]:
    """The guide that ships. Raises OrinError where it is missing."""
    for path in (_INSTALLED, _CHECKOUT):
        if path.is_file():
            return parse_guide(path.read_text(encoding="utf-8"))
    raise OrinError(f"{_INSTALLED} is missing: install orin-llm again")


def entries_of_check(check: str) -> list[Entry]:
    """The entries that a finding of `orin-llm doctor` belongs to, where it is named first.

    None where the guide is missing: the doctor works without.
    """
    try:
        entries = [entry for entry in read_guide() if check in entry.checks]
    except OrinError:
        return []
    return sorted(entries, key=lambda entry: entry.checks.index(check))


def parse_guide(markdown: str) -> tuple[Entry, ...]:
    """All entries, in their order. Raises ValueError, naming the entry that is not in the form."""
    group = ""
    entries = []
    for heading, body in _sections(markdown):
        if heading.startswith("### "):
            entries.append(_entry(heading.removeprefix("### "), group, body))
        else:
            group = heading.removeprefix("## ")
    names = [entry.name for entry in entries]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two entries are named {', '.join(sorted(twice))}")
    return tuple(entries)


def name_of(title: str) -> str:
    """The name that a heading's link has: lower case, words joined by dashes."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def plain(text: str) -> str:
    """A text without links: their words, and where they lead."""

    def replaced(match: re.Match[str]) -> str:
        words, file, anchor = match[1], match[2], match[3]
        if not file:
            return f"{words} (`orin-llm explain {anchor}`)"
        return f"docs/{file}" if words == file else f"{words} (docs/{file})"

    return _LINK.sub(replaced, text)


def _sections(markdown: str) -> Iterator[tuple[str, list[str]]]:
    """Headings of the second and third level with the lines below each."""
    heading, body = "", list[str]()
    for line in markdown.splitlines():
        if re.match(r"#{2,3} ", line):
            if heading:
                yield heading, body
            heading, body = line.rstrip(), []
        else:
            body.append(line)
    if heading:
        yield heading, body


def _entry(title: str, group: str, body: list[str]) -> Entry:
    parts = dict[str, str]()
    for item in re.split(r"\n(?=- )", "\n".join(body).strip()):
        match = _ITEM.fullmatch(" ".join(item.split()))
        if match is None or match[1] not in _LABELS or match[1] in parts:
            raise ValueError(f"{title}: expected `- **Label** text`, each once, found {item!r}")
        parts[match[1]] = match[2]
    if missing := [label for label in _NEEDED if label not in parts]:
        raise ValueError(f"{title}: {', '.join(missing)} is missing")
    return Entry(
        name=name_of(title),
        title=title,
        group=group,
        symptom=plain(parts["Symptom"]),
        log=plain(parts["Log"]),
        trace=plain(parts["Trace"]),
        fix=plain(parts["Fix"]),
        also=tuple(part.strip() for part in parts.get("Also", "").split(",") if part.strip()),
        messages=_code(title, "Messages", " · ", parts),
        links=tuple(_address(title, link) for link in _listed(parts.get("Links", ""))),
        checks=_code(title, "Doctor", ", ", parts),
    )


def _listed(text: str) -> list[str]:
    return text.split(", ") if text else []


def _code(title: str, label: str, between: str, parts: dict[str, str]) -> tuple[str, ...]:
    """The texts of a list of code: `a`, `b`."""
    items = parts[label].split(between) if label in parts else []
    for item in items:
        if not re.fullmatch(r"`[^`]+`", item):
            raise ValueError(f"{title}: {label}: expected code in backticks, found {item!r}")
    return tuple(item.strip("`") for item in items)


def _address(title: str, link: str) -> str:
    match = _THREAD.fullmatch(link)
    if match is None:
        raise ValueError(f"{title}: Links: expected [owner/repo#1](its address), found {link!r}")
    return match[3]
