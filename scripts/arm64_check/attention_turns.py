"""One node of attention after another, ours and llama.cpp's, with a mark before and behind each.

Runs under the emulator; `instructions` reads what is counted between the marks.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module


def mark() -> None:
    os.getsid(0)  # what count_instructions.c waits for; nothing else calls it


def main() -> None:
    bench = import_module("bench_attention")
    for case in json.loads(sys.argv[1]):
        probe = bench.Case(*case).step().probe(1)
        for stock in (False, True):
            probe.time(stock=stock, n_threads=1, n_nodes=1)  # what is made once is made here
            mark()
            probe.time(stock=stock, n_threads=1, n_nodes=1)
            mark()


if __name__ == "__main__":
    main()
