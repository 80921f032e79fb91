"""`orin-llm bench serve URL`: load on a server with OpenAI's interface."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.bench_output import print_results, require_none_failed
from orin_llm.cli.bench_report import REPORT, FormatFlag, JsonFlag, QuietFlag, ReportOptions
from orin_llm.cli.bench_serve_options import LoadOptions, ServerOptions
from orin_llm.cli.layout import chosen_layout
from orin_llm.cli.machine_options import MachineOptions
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import flag
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.bench.serve.address import Address
    from orin_llm.bench.serve.load import Load
    from orin_llm.gguf.header import Header


@with_option_groups
def bench_serve(
    ctx: typer.Context,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="Of the server, such as http://localhost:8080.")
    ],
    *,
    server: ServerOptions,
    load: LoadOptions,
    extras: ReportOptions,
    machine: MachineOptions,
    repetitions: Annotated[
        int, flag("-r", "--repetitions", panel=REPORT, help="Of each load.")
    ] = 1,
    warmup: Annotated[
        int, flag("--warmup", panel=REPORT, help="Requests before each load that do not count.")
    ] = 2,
    seed: Annotated[
        int | None,
        flag(
            "--seed",
            panel=REPORT,
            help="Of prompts, lengths and arrivals; a new one each time if not given, so that the "
            "server has none of it in its cache.",
        ),
    ] = None,
    model_file: Annotated[
        str | None,
        flag(
            "--model-file",
            panel=REPORT,
            metavar="MODEL",
            help="What the server runs, as a name in the store or a GGUF file: tells how many "
            "requests this machine's memory has room for.",
        ),
    ] = None,
    output: FormatFlag = "md",
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Put a load on a server with OpenAI's interface, and measure what its clients see.

    Closed loop (--concurrency): so many users, each asks again when it has its answer. Open loop
    (--rate): requests come at random, whatever became of those before. Lists make a sweep, which
    tells the knee: where throughput stops paying for latency.
    """
    import secrets

    from orin_llm.bench.report import FORMATS
    from orin_llm.bench.serve.address import Address
    from orin_llm.bench.serve.campaign import measure_server
    from orin_llm.bench.serve.discovery import find_server
    from orin_llm.bench.serve.environment import server_environment
    from orin_llm.bench.serve.plan import ServeCampaign
    from orin_llm.bench.serve.session import Session
    from orin_llm.bench.watch import watching
    from orin_llm.cli.progress import reporter

    layout = chosen_layout(ctx, output, as_json, FORMATS)
    campaign = ServeCampaign(
        address=Address.parse(url),
        loads=load.loads(server.endpoint),
        model=server.model,
        endpoint=server.endpoint,
        key=server.api_key,
        body=server.more(),
        timeout_s=server.timeout,
        repetitions=repetitions,
        warmup=warmup,
        cool_down_s=machine.cool_down,
        seed=secrets.randbelow(1 << 31) if seed is None else seed,
    )
    header = None if model_file is None else _header(model_file, campaign.address)
    passing = extras.prepare(layout, [one.settings for one in campaign.loads], quiet=quiet)
    reads = machine.readings and campaign.address.is_local
    with (
        reporter(quiet) as progress,
        Session() as session,
        watching(machine.root, readings=reads, interval_ms=machine.interval) as watch,
    ):
        found = find_server(campaign, session, progress)
        reports = measure_server(
            campaign,
            session,
            found,
            server_environment(found, watch, header),
            progress,
            watch,
            _allowed(header, campaign.loads),
        )
        results = print_results(passing(reports), layout, len(campaign.loads))
    require_none_failed(results)


def _header(model_file: str, address: Address) -> Header:
    from orin_llm.engine.loaded_model import read_model_header
    from orin_llm.models.store import resolve

    if not address.is_local:
        raise UsageError(f"--model-file is for a server on this machine, and {address} is not")
    return read_model_header(Path(resolve(model_file)))


def _allowed(header: Header | None, loads: tuple[Load, ...]) -> Mapping[int, int] | None:
    """Requests at once, by their length, that this machine's memory has room for."""
    from orin_llm.bench.serve.room import room_for
    from orin_llm.device.build import build_info

    return None if header is None else room_for(header, loads, build_info().cuda)
