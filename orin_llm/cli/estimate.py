"""`orin-llm estimate`: TTFT, TPOT and memory of a model on a board, worked out from its header."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.json_output import print_json
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag
from orin_llm.cli.root_option import Root
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.estimate.roofline import Factors
    from orin_llm.estimate.target import Target

WHAT, BOARD, FACTORS, OUTPUT = "What to estimate", "Board", "Efficiency", "Output"


@dataclass(frozen=True)
class BoardOptions:
    """Which board, in which of its power modes."""

    board: Annotated[
        str | None,
        flag(
            "--board",
            panel=BOARD,
            metavar="[agx-orin-64gb|agx-orin-32gb]",
            help="Which one; this machine if it is one of them, else agx-orin-64gb.",
        ),
    ] = None
    mode: Annotated[
        str | None,
        flag("--mode", panel=BOARD, help="Power modes, such as MAXN,30W; all of the board's."),
    ] = None

    def target(self, root: Path) -> Target:
        """The board's rates and memory; UsageError for one that is not known."""
        from orin_llm.estimate.target import chosen_modes, module_named, shipped_target, this_board

        target = shipped_target(module_named(self.board)) if self.board else this_board(root)
        return replace(target, modes=chosen_modes(target.modes, self.mode))


@dataclass(frozen=True)
class FactorOptions:
    """The part of the board's rates that the program gets."""

    bandwidth: Annotated[
        float, flag("--bandwidth", panel=FACTORS, help="Part of the memory's bandwidth, 0 to 1.")
    ] = 0.57
    compute: Annotated[
        float, flag("--compute", panel=FACTORS, help="Part of the f16 products in prefill, 0 to 1.")
    ] = 0.20
    bytes_per_clock: Annotated[
        float,
        flag(
            "--bytes-per-clock",
            panel=FACTORS,
            help="Of weights, for each multiprocessor, at decode.",
        ),
    ] = 7.3

    def factors(self) -> Factors:
        """The factors; UsageError for one that cannot be."""
        from orin_llm.estimate.roofline import Factors

        return Factors(self.bandwidth, self.compute, self.bytes_per_clock)


@with_option_groups
def estimate(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Name in the store, what it was pulled by, or a path.", show_default=False
        ),
    ] = None,
    *,
    depth: Annotated[
        str | None,
        flag(
            "-d",
            "--depth",
            panel=WHAT,
            help="Tokens of the prompt: 512,2048 or 1024-8192*2; if not given, those of 512, 2048 "
            "and 8192 that the model takes.",
        ),
    ] = None,
    ctx: Annotated[
        int,
        flag(
            "-c",
            "--ctx",
            panel=WHAT,
            min=0,
            help="Tokens a sequence, for the memory; 0: the model's, at most 8192.",
        ),
    ] = 0,
    kv_type: Annotated[
        str, flag("-ctk", "--kv-type", panel=WHAT, help="Element types of the KV cache, or K:V.")
    ] = "f16",
    chunk_size: Annotated[
        int, flag("--chunk-size", panel=WHAT, min=1, help="Prompt tokens computed in one step.")
    ] = 512,
    board: BoardOptions,
    efficiency: FactorOptions,
    check: Annotated[
        bool,
        flag("--check", panel=OUTPUT, help="Print what published results imply, and no estimate."),
    ] = False,
    as_json: Annotated[bool, flag("--json", panel=OUTPUT, help="Print one JSON object.")] = False,
    root: Root = Path("/"),
) -> None:
    """Work out TTFT, TPOT and memory of a model on an AGX Orin: an estimate, not a measurement.

    TTFT is that of a prompt of each depth, TPOT that of the token behind it.
    """
    from orin_llm.cli import estimate_view

    if check:
        from orin_llm.estimate.published import PUBLISHED, implied

        results = [implied(result) for result in PUBLISHED]
        if as_json:
            print_json({"published": [result.to_json() for result in results]})
        else:
            estimate_view.print_check(results)
        return
    if model is None:
        raise UsageError("no model: name one of the store (orin-llm models list) or a GGUF file")

    from orin_llm.bench.lengths import parse_numbers
    from orin_llm.estimate.estimate import default_depths
    from orin_llm.estimate.estimate import estimate as work_out
    from orin_llm.gguf.header import read_model_header
    from orin_llm.models.store import resolve

    target, factors = board.target(root), efficiency.factors()
    given = None if depth is None else parse_numbers(depth, "--depth", least=1)
    path = resolve(model)
    header = read_model_header(path)
    found = work_out(
        header,
        path,
        target,
        depths=given or default_depths(header),
        factors=factors,
        ctx=ctx,
        chunk_size=chunk_size,
        kv_type=kv_type,
    )
    if as_json:
        print_json(found.to_json())
    else:
        estimate_view.print_estimate(found)
