#!/usr/bin/env python3
"""Work on the patches of cpp/patches/manifest.toml.

scripts/patch_llama.py source DIR               unpack the pinned llama.cpp, unpatched, into DIR
scripts/patch_llama.py anchor FILE FIRST LAST   the anchor entry for lines FIRST to LAST of FILE
scripts/patch_llama.py check DIR                does every entry land on the llama.cpp in DIR?
scripts/patch_llama.py apply DIR                patch the llama.cpp in DIR
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from native.llama import unpack_sources
from native.patches import (
    PatchError,
    anchor_hash,
    apply_patches,
    find_anchors,
    load_manifest,
    plan_patches,
)
from native.progress import say
from orin_llm.upstream import fetch_sdist

MANIFEST = ROOT / "cpp" / "patches" / "manifest.toml"


def print_anchor(file: Path, first: int, last: int) -> int:
    lines = file.read_text(errors="surrogateescape").splitlines()
    if not 1 <= first <= last <= len(lines):
        print(f"{file} has lines 1 to {len(lines)}, not {first} to {last}", file=sys.stderr)
        return 2
    count, digest = last - first + 1, anchor_hash(lines[first - 1 : last])
    print(f'lines = {count}\nsha256 = "{digest}"')
    places = len(find_anchors(lines, count, digest))
    if places != 1:
        print(f"found {places} times in {file}: take more lines", file=sys.stderr)
        return 1
    return 0


def check(folder: Path) -> int:
    patches = load_manifest(MANIFEST)
    _, problems = plan_patches(patches, folder)
    print("\n".join(problems) if problems else f"all {len(patches)} patches land")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    anchor = commands.add_parser("anchor")
    anchor.add_argument("file", type=Path)
    anchor.add_argument("first", type=int)
    anchor.add_argument("last", type=int)
    for name in ("source", "check", "apply"):
        commands.add_parser(name).add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.command == "anchor":
            return print_anchor(arguments.file, arguments.first, arguments.last)
        if arguments.command == "check":
            return check(arguments.folder)
        if arguments.command == "apply":
            apply_patches(load_manifest(MANIFEST), arguments.folder)
        else:
            unpack_sources(fetch_sdist(report=say), arguments.folder)
    except PatchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
