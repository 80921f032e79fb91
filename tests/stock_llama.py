"""llama-cpp-python's own Llama in a process of its own.

Run as a program it is that process: it loads nothing native of this package, so that the two builds
of llama.cpp never meet.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from orin_llm.bench.peer import Peer


class StockLlama(Peer):
    """A running process. Leaving the context ends it."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__([__file__], {"model_path": str(path), **options})

    def get(self, name: str) -> Any:
        """An attribute of the Llama there."""
        return self.ask({"get": name})["result"]

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """The result of a method; of a streaming one, the list of chunks."""
        return self.ask({"call": name, "args": args, "options": options})["result"]


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
