"""A peer: a Python program in a process of its own that answers lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import Any

from orin_llm.closeable import Closeable
from orin_llm.errors import OrinError


class Peer(Closeable):
    """A running program. Use as a context manager: leaving it ends the process.

    The program reads one JSON object a line and answers each with one: first `settings`, then the
    requests. An answer with "error" is a failure, which ends a command with its "exit_code".

    Args:
        arguments: of the Python interpreter: a program's path, or `-m` and a module.
        name: what errors call it.
    """

    def __init__(
        self, arguments: Sequence[str], settings: dict[str, Any], name: str = "stock peer"
    ) -> None:
        self._name = name
        # A pipe that nobody reads would fill up.
        self._stderr = TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            # So the last line is the assertion that failed in ggml.
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},
        )
        try:
            self.ask(settings)
        except BaseException:  # also Ctrl-C while it loads: nobody else would end it
            self.close()
            raise

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            OrinError: the peer ended, or the request failed there.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # both are pipes, see above
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait()
            raise OrinError(f"the {self._name} ended with status {status}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            failure = OrinError(f"the {self._name} failed: {answer['error']}")
            failure.exit_code = answer.get("exit_code", failure.exit_code)
            raise failure
        return answer

    def _last_words(self) -> str:
        self._stderr.seek(0)
        lines = [line.strip() for line in self._stderr if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()
        self._stderr.close()
