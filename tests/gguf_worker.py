"""Checks or loads model files in a process of its own, with little memory and a deadline.

As a program: `gguf_worker.py check|load` reads paths, one a line, and answers each with one line.
check: "header" or "refused". load: "refused" by the preflight, "ran" a few tokens, "raised" an
OrinError, or else what went wrong.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal

SPARE_BYTES = 64 * 2**20  # what a check may take beyond what the started interpreter has
LOAD_BYTES = 4 * 2**30
LOAD_CPU_S = 10
ANSWER_S = 60.0

RAN, RAISED, FAILED = 0, 3, 4  # exit statuses of a process that loads


class Worker:
    """Answers for one file after the other. Any other end than an answer fails the test."""

    def __init__(self, task: Literal["check", "load"]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._answers = selectors.DefaultSelector()
        self._answers.register(self._process.stdout, selectors.EVENT_READ)

    def answer(self, path: Path, data: bytes) -> str:
        """What becomes of a file with these bytes, which is written to `path`."""
        path.write_bytes(data)
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


def _check(path: str) -> str:
    from orin_llm._native import check_gguf
    from orin_llm.errors import ModelFileError

    try:
        header = check_gguf(path)
    except ModelFileError as error:
        assert str(error)
        return "refused"
    return f"header {len(header.metadata)} {len(header.tensors)}"


def _load(path: str) -> str:
    """Loads in a fork, so that no file is judged by what an earlier one left behind."""
    if _check(path) == "refused":
        return "refused"
    process = os.fork()
    if process == 0:
        os._exit(_run(path))
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return f"died of {signal.Signals(os.WTERMSIG(status)).name}"
    return {RAN: "ran", RAISED: "raised"}.get(os.WEXITSTATUS(status), "failed, see stderr")


def _run(path: str) -> int:
    from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
    from orin_llm.errors import OrinError

    resource.setrlimit(resource.RLIMIT_AS, (LOAD_BYTES, LOAD_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LOAD_CPU_S, LOAD_CPU_S))
    try:
        with Engine(path, EngineConfig(n_ctx=0, threads=1, gpu_layers=0)) as engine:
            for text in ("ab c", "\n", " <0x41>\u00e9\u2581\U0001f600", "</s>"):
                for parse_special in (False, True):
                    tokens = engine.tokenize(text, parse_special=parse_special)
                    engine.detokenize(tokens, special=True)
            prompt = [token % engine.n_vocab for token in (0, 1, 2, 5)][: engine.n_ctx - 1]
            for _ in engine.complete(Request(prompt, SamplingParams(temperature=0), 3)):
                pass
    except OrinError:
        return RAISED
    except BaseException:
        traceback.print_exc()
        return FAILED
    return RAN


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _main(task: str) -> None:
    answer: Callable[[str], str] = {"check": _check, "load": _load}[task]
    import orin_llm.engine  # noqa: F401  before the memory is limited or the process forked

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if task == "check":
        _limit_memory()
    for line in sys.stdin:
        print(answer(line.rstrip("\n")), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
