"""Puts our hooks into a copy of llama.cpp.

The manifest (cpp/patches/manifest.toml) holds one entry per patch:

    [[patch]]
    id = "what-it-is-for"
    file = "ggml/src/ggml.c"   # relative to llama.cpp's root
    lines = 2                  # how many consecutive lines of upstream mark the place
    sha256 = "…"               # of those lines: scripts/patch_llama.py anchor FILE FIRST LAST
    place = "after"            # before or after those lines, or replace
    text = "hook();"           # or text_file = "hook.inc", beside the manifest
    token = "private:"         # with replace: what `text` replaces, once in those lines

The lines are hashed with their white space collapsed, so they are found where upstream moved or
re-indented them, and not where upstream changed them. They must be found exactly once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from native.errors import BuildError
from orin_llm.errors import UsageError
from orin_llm.host.toml_file import read_toml

# Line ends and bytes that are not UTF-8 come out as they went in.
_ENCODING = ("utf-8", "surrogateescape")

PLACES = ("before", "after", "replace")
_REQUIRED = {"id": str, "file": str, "lines": int, "sha256": str, "place": str}
_OPTIONAL = ("text", "text_file", "token")


class PatchError(BuildError):
    """Entries that cannot be read, or whose place was not found exactly once."""


@dataclass(frozen=True)
class Patch:
    """One entry of the manifest."""

    id: str
    file: str
    lines: int
    sha256: str
    place: str
    text: str
    token: str = ""


def load_manifest(path: Path) -> list[Patch]:
    """Read and validate the manifest; PatchError names the entry and the key."""
    try:
        entries = read_toml(path).get("patch", [])
    except UsageError as error:
        raise PatchError(str(error)) from None
    patches = [_read_entry(entry, path.parent) for entry in entries]
    ids = [patch.id for patch in patches]
    for id_ in ids:
        if ids.count(id_) > 1:
            raise PatchError(f"{path}: two patches have the id {id_!r}")
    return patches


def _read_entry(entry: dict[str, Any], folder: Path) -> Patch:
    where = f"patch {entry.get('id', '(no id)')!r}"
    for key, kind in _REQUIRED.items():
        if not isinstance(entry.get(key), kind):
            raise PatchError(f"{where}: expected {key} = a {kind.__name__}")
    if unknown := set(entry) - set(_REQUIRED) - set(_OPTIONAL):
        raise PatchError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    if entry["place"] not in PLACES:
        raise PatchError(f"{where}: place is {entry['place']!r}, expected {', '.join(PLACES)}")
    if (entry["place"] == "replace") != ("token" in entry):
        raise PatchError(f"{where}: `token` belongs to place = 'replace', and only there")
    if ("text" in entry) == ("text_file" in entry):
        raise PatchError(f"{where}: expected either text or text_file")
    if entry["lines"] < 1:
        raise PatchError(f"{where}: lines is {entry['lines']}, expected at least 1")
    text = entry["text"] if "text" in entry else (folder / entry["text_file"]).read_text()
    fields = {key: entry[key] for key in _REQUIRED}
    return Patch(**fields, text=text.strip("\n"), token=entry.get("token", ""))


def normalize(line: str) -> str:
    return " ".join(line.split())


def anchor_hash(lines: Sequence[str]) -> str:
    """The sha256 of an entry whose anchor is these lines."""
    text = "\n".join(map(normalize, lines))
    return hashlib.sha256(text.encode(*_ENCODING)).hexdigest()


def find_anchors(lines: Sequence[str], count: int, digest: str) -> list[int]:
    """Index of the first line of every `count` consecutive lines that have this hash."""
    return [
        first
        for first in range(len(lines) - count + 1)
        if anchor_hash(lines[first : first + count]) == digest
    ]


def apply_patches(patches: Sequence[Patch], root: Path) -> None:
    """Patch the sources below `root` in place, all entries or none.

    Anchors are looked up in the unpatched text, so entries neither see nor disturb one another.
    PatchError lists every entry that does not land.
    """
    patched, problems = plan_patches(patches, root)
    if problems:
        raise PatchError("these patches do not land on this llama.cpp:\n  " + "\n  ".join(problems))
    for path, text in patched.items():
        path.write_bytes(text.encode(*_ENCODING))


def plan_patches(patches: Sequence[Patch], root: Path) -> tuple[dict[Path, str], list[str]]:
    """(new text by file, one line per entry that does not land), without writing anything."""
    patched: dict[Path, str] = {}
    problems: list[str] = []
    for file in dict.fromkeys(patch.file for patch in patches):
        of_file = [patch for patch in patches if patch.file == file]
        path = root / file
        if path.is_file():
            patched[path] = _patch_text(path.read_bytes().decode(*_ENCODING), of_file, problems)
        else:
            problems += [f"{patch.id}: {file} does not exist" for patch in of_file]
    return patched, problems


def _patch_text(text: str, patches: Sequence[Patch], problems: list[str]) -> str:
    lines = text.splitlines(keepends=True)
    edits: list[tuple[int, int, Patch]] = []  # (line, place in the manifest, patch)
    for order, patch in enumerate(patches):
        anchors = find_anchors(lines, patch.lines, patch.sha256)
        if len(anchors) != 1:
            problems.append(
                f"{patch.id}: its anchor of {patch.lines} lines is found {len(anchors)} times"
                f" in {patch.file}, expected once"
            )
            continue
        first, end = anchors[0], anchors[0] + patch.lines
        uses = sum(line.count(patch.token) for line in lines[first:end])
        if patch.place == "replace" and uses != 1:
            problems.append(
                f"{patch.id}: the token {patch.token!r} is found {uses} times in its anchor"
                f" (line {first + 1} of {patch.file}), expected once"
            )
            continue
        edits.append((end if patch.place == "after" else first, order, patch))
    # From the bottom up, so that the line numbers above an edit stay valid.
    for line, _, patch in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        if patch.place == "replace":
            _replace_token(lines, line, patch)
        else:
            lines[line:line] = _marked(patch)
    return "".join(lines)


def _marked(patch: Patch) -> list[str]:
    begin, end = (_comment(patch, f"{mark} orin-llm: {patch.id}") for mark in (">>>", "<<<"))
    return [f"{begin}\n", f"{patch.text}\n", f"{end}\n"]


def _replace_token(lines: list[str], first: int, patch: Patch) -> None:
    marked = f"{patch.text} {_comment(patch, f'orin-llm: {patch.id}')}"
    for index in range(first, first + patch.lines):
        lines[index] = lines[index].replace(patch.token, marked)


def _comment(patch: Patch, text: str) -> str:
    is_cmake = patch.file.endswith((".txt", ".cmake"))
    return f"#[[ {text} ]]" if is_cmake else f"/* {text} */"
