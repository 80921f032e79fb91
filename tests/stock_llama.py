"""llama-cpp-python's own Llama in a process of its own, asked by JSON lines.

Run as a program it is that process: it imports nothing of this package, so that the two builds of
llama.cpp never meet.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any


class StockLlama:
    """A running process. Leaving the context ends it."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._ask({"model_path": str(path), **options})

    def get(self, name: str) -> Any:
        """An attribute of the Llama there."""
        return self._ask({"get": name})

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """The result of a method; of a streaming one, the list of chunks."""
        return self._ask({"call": name, "args": args, "options": options})

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def __enter__(self) -> StockLlama:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def main() -> None:
    import llama_cpp

    llama = llama_cpp.Llama(**json.loads(sys.stdin.readline()), verbose=False)
    answer(None)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "get" in request:
                answer(getattr(llama, request["get"]))
                continue
            args = [a.encode() if request["call"] == "tokenize" else a for a in request["args"]]
            result = getattr(llama, request["call"])(*args, **request["options"])
            if request["options"].get("stream"):
                result = list(result)
            answer(list(result) if isinstance(result, bytes) else result)
        except Exception as error:
            print(json.dumps({"error": repr(error)}), flush=True)


def answer(result: Any) -> None:
    # Probabilities are NumPy numbers there.
    print(json.dumps({"result": result}, default=float), flush=True)


if __name__ == "__main__":
    main()
