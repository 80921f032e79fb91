"""What processes that start once, timed, have in common: how they are told to. Nothing native.

A line of settings comes on stdin, and is answered when everything is imported; then, when the page
cache is as it should be, {"prompt": [ids]}, which the start's figures answer. At the end of stdin
before that there is no start.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any


def serve(
    start: Callable[[dict[str, Any], list[int]], dict[str, Any]], failure: type[Exception]
) -> None:
    """Start when told.

    Args:
        start: gets the settings and the prompt, and returns the figures.
        failure: what is answered as "error", not raised.
    """
    settings = json.loads(sys.stdin.readline())
    print(json.dumps({"ready": True}), flush=True)
    request = sys.stdin.readline()
    if not request:
        return
    try:
        answer = start(settings, json.loads(request)["prompt"])
    except failure as error:
        answer = {"error": str(error), "exit_code": getattr(error, "exit_code", 1)}
    print(json.dumps(answer), flush=True)
