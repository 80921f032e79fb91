"""The proxy, started for the first step that asks for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from checking.record import Record
from checking.steps import Found, NotPossible, StepFailed
from gpu_check.machine import device_facts
from gpu_check.mps import MULTIPROCESSORS, PERCENTAGE, find_percentage, mps_server
from gpu_check.steps import Context


class Proxy:
    """A part of the GPU, from the first use to the end of the block."""

    def __init__(self, record: Record, say: Callable[[str], None]) -> None:
        self._record, self._say = record, say
        self._server = ExitStack()
        self._environ: dict[str, str] = {}
        self._problem = ""

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def environ(self, context: Context) -> dict[str, str]:
        """Variables that confine a program to it. Raises NotPossible."""
        if not self._environ and not self._problem:
            try:
                self._environ = self._start(context)
            except StepFailed as failure:
                self._problem = str(failure)
        if self._problem:
            raise NotPossible(self._problem)
        return self._environ

    def _start(self, context: Context) -> dict[str, str]:
        whole = device_facts(context)["multiprocessors"]
        variables = self._server.enter_context(mps_server())

        def left_at(percent: int) -> int:
            environ = {**variables, PERCENTAGE: str(percent)}
            inside = replace(context, environ=environ)
            return int(device_facts(inside)["multiprocessors"])

        percent, left = find_percentage(whole, left_at)
        self._record.data["proxy"] = {
            "percentage": percent,
            "multiprocessors": left,
            "wanted": MULTIPROCESSORS,
            "of": whole,
        }
        self._say(f"proxy of the board: {percent} % leaves {left} of {whole} multiprocessors")
        return {**variables, PERCENTAGE: str(percent)}


def on_proxy(run: Callable[[Context], Found], context: Context) -> Found:
    """A step, confined."""
    assert context.proxy is not None
    return run(replace(context, environ=context.proxy(context), confined=True))
