"""The flags of `orin-llm imatrix` that say what is collected, and where it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from orin_llm.cli.options import MODEL, GpuLayersFlag, ThreadsFlag, flag
from orin_llm.cli.quality_options import TEXT, EncodingFlag, TextFlag, WindowsFlag

FILES = "Files"


@dataclass(frozen=True)
class CollectOptions:
    """Which text, how it is cut, and what computes it."""

    text: TextFlag = None
    encoding: EncodingFlag = None
    ctx_size: Annotated[
        int | None,
        flag(
            "-c",
            "--ctx-size",
            panel=TEXT,
            min=16,
            max=1 << 22,
            help="Tokens of a window; if not given, as in the files that are added to, or 512.",
        ),
    ] = None
    windows: WindowsFlag = None
    parse_special: Annotated[
        bool,
        flag(
            "--parse-special",
            panel=TEXT,
            help="Read control tokens written in the text, such as <|im_start|>, as those tokens.",
        ),
    ] = False
    gpu_layers: GpuLayersFlag = -1
    threads: ThreadsFlag = 0
    process_output: Annotated[
        bool,
        flag("--process-output", panel=MODEL, help="Of the output matrix, too: of little use."),
    ] = False
    output_frequency: Annotated[
        int,
        flag(
            "-ofreq",
            "--output-frequency",
            panel=FILES,
            min=1,
            help="Save after every so many windows.",
        ),
    ] = 10
