"""Checks model files in a process of its own, with little memory and a deadline.

As a program: reads paths, one a line, and answers each with one line: "header" or "refused".
"""

from __future__ import annotations

import os
import resource
import selectors
import subprocess
import sys
from pathlib import Path

SPARE_BYTES = 64 * 2**20  # what a check may take beyond what the started interpreter has
ANSWER_S = 20.0


class Worker:
    """Answers for one file after the other. Any other end than an answer fails the test."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._answers = selectors.DefaultSelector()
        self._answers.register(self._process.stdout, selectors.EVENT_READ)

    def check(self, path: Path) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        assert self._answers.select(ANSWER_S), f"no answer for {path} within {ANSWER_S} s"
        answer = self._process.stdout.readline().strip()
        assert answer, f"the worker died of {path}: status {self._process.wait()}"
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _main() -> None:
    from orin_llm._native import check_gguf
    from orin_llm.errors import ModelFileError

    _limit_memory()
    for line in sys.stdin:
        try:
            header = check_gguf(line.rstrip("\n"))
            answer = f"header {len(header.metadata)} {len(header.tensors)}"
        except ModelFileError as error:
            assert str(error)
            answer = "refused"
        print(answer, flush=True)


if __name__ == "__main__":
    _main()
