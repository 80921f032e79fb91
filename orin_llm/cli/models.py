"""`orin-llm models`: fetch, list, inspect, check and remove models."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.json_output import print_json
from orin_llm.errors import ModelFileError, OrinError
from orin_llm.host.units import counted

if TYPE_CHECKING:
    from orin_llm.models.store import Store
    from orin_llm.models.verify import Verified

STORE, INSPECT, MAKE = "The store", "Look at a model", "Make a model file"

app = typer.Typer(
    name="models",
    help="Fetch, list, inspect and remove models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No messages, no progress.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file.")]
Model = Annotated[str, typer.Argument(help="Name in the store, what it was pulled by, or a path.")]


@app.command("pull", rich_help_panel=STORE)
def pull_model(
    model: Annotated[
        str, typer.Argument(help="Registry name, hf:owner/repo[:QUANT], https: address, or path.")
    ],
    name: Annotated[str | None, typer.Option("--name", help="Name it in the store.")] = None,
    sha256: Annotated[
        str | None, typer.Option("--sha256", help="Checksum that the file must have.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fetch a model into the store; an interrupted pull goes on where it stopped."""
    from orin_llm.cli.models_list import stored_json
    from orin_llm.cli.progress import reporter
    from orin_llm.models.pull import pull

    store = _store()
    with reporter(quiet) as report:
        pulled = pull(model, store=store, reporter=report, name=name, sha256=sha256)
    manifest = pulled.manifest
    path = store.path(manifest.name)
    if as_json:
        print_json({**stored_json(manifest, path), "fresh": pulled.fresh})
        return
    if not pulled.fresh and not quiet:
        print(f"{manifest.name} is in the store already", file=sys.stderr)
    _print_path(path)


@app.command("list", rich_help_panel=STORE)
def list_models(
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Also what the registry has to pull.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the models in the store."""
    from orin_llm.cli.models_list import gather

    listing = gather(_store(), every=every)
    if as_json:
        print_json(listing.to_json())
    else:
        from orin_llm.cli.models_view import print_listing

        print_listing(listing)


@app.command("path", rich_help_panel=STORE)
def print_path(model: Model) -> None:
    """Print the path of a model's file."""
    from orin_llm.models.store import resolve

    _print_path(resolve(model))


@app.command("rm", rich_help_panel=STORE)
def remove_models(
    names: Annotated[list[str], typer.Argument(help="Names in the store.", metavar="NAME...")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove models, and what unfinished pulls of them left."""
    from orin_llm.cli.confirm import confirmed
    from orin_llm.host.units import size_text

    store = _store()
    unknown = [n for n in names if not store.has(n) and not store.partial_folder(n).is_dir()]
    if unknown:
        raise ModelFileError(f"not in the store: {', '.join(unknown)}; nothing was removed")
    if not yes and not confirmed(f"Remove {', '.join(names)}?"):
        raise OrinError("nothing was removed")
    for name in dict.fromkeys(names):
        freed = store.remove(name)
        print(f"removed {name} ({size_text(freed)})", file=sys.stderr)


@app.command("show", rich_help_panel=INSPECT)
def show_model(
    model: Model,
    ctx: Annotated[
        int, typer.Option("--ctx", "-c", min=0, help="Tokens a sequence; 0: the model's, ≤ 8192.")
    ] = 0,
    kv_type: Annotated[
        str, typer.Option("--kv-type", "-ctk", help="Element types of the KV cache, or K:V.")
    ] = "f16",
    chunk_size: Annotated[
        int, typer.Option("--chunk-size", min=1, help="Prompt tokens computed in one step.")
    ] = 512,
    as_json: Json = False,
) -> None:
    """Describe a model: its make, bytes per token, and how many sequences fit this machine."""
    from orin_llm.cli.models_view import print_facts
    from orin_llm.device.budget import memory_budget
    from orin_llm.device.build import build_info
    from orin_llm.models.show import show
    from orin_llm.models.store import resolve

    budget = memory_budget(uses_cuda=build_info().cuda)
    facts = show(resolve(model), budget, ctx=ctx, chunk_size=chunk_size, kv_type=kv_type)
    if as_json:
        print_json(facts.to_json())
    else:
        print_facts(facts)


@app.command("verify", rich_help_panel=INSPECT)
def verify_models(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="Names in the store, or paths; none: the store.", metavar="[MODEL...]"),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read models from end to end: every tensor, and the checksums of what was pulled."""
    from orin_llm.cli.progress import reporter
    from orin_llm.cli.render import visible
    from orin_llm.models import reference
    from orin_llm.models.verify import verify

    store = _store()
    wanted = list(dict.fromkeys(models)) if models else store.names()
    for model in wanted:
        reference.parse(model)  # what is no name at all is told before anything is read
    found: dict[str, Verified | ModelFileError] = {}
    _allow_paths_on_stdout()
    with reporter(quiet) as report:
        for model in wanted:
            try:
                found[model] = verify(store, model, report)
            except ModelFileError as error:
                found[model] = error
            if not as_json:
                report.close()  # the bar, before something is printed
                print(visible(f"{model}: {_verified_text(model, found[model])}"), flush=True)
    if as_json:
        print_json({"models": [_verified_json(*item) for item in found.items()]})
    if any(isinstance(result, ModelFileError) for result in found.values()):
        raise typer.Exit(ModelFileError.exit_code)


def _verified_json(model: str, result: Verified | ModelFileError) -> dict[str, object]:
    if isinstance(result, ModelFileError):
        where = {"field": result.field or None, "offset": result.offset}
        return {"name": model, "ok": False, "problem": str(result), **where}
    return {"name": model, "ok": True, "problem": None, **result.to_json()}


def _verified_text(model: str, result: Verified | ModelFileError) -> str:
    if isinstance(result, ModelFileError):
        return str(result).removeprefix(f"{model}: ")
    tensors = counted(result.tensors, "tensor")
    compared = "SHA-256 as pulled" if result.stored else "not of the store: no SHA-256 to compare"
    return f"ok ({tensors}; {compared})"


@app.command("synth", rich_help_panel=MAKE)
def synthesize_model(
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    shape: Annotated[
        str, typer.Option("--shape", help="llama-3-8b, llama-3.2-3b, llama-3.2-1b or tiny.")
    ],
    quant: Annotated[str, typer.Option("--quant", help="Such as Q4_K_M.")] = "Q4_K_M",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random weights.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a model of a real one's shape with random weights, for speed work."""
    from orin_llm.cli.progress import reporter
    from orin_llm.models.synth import synthesize

    with reporter(quiet) as report:
        synthesize(shape, quant, out, seed=seed, force=force, reporter=report)
    _print_path(out)


@app.command("widen", rich_help_panel=MAKE)
def widen_model(
    source: Model,
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Pad a model with zeros so that K-quants fit its rows; the same output, up to rounding."""
    from orin_llm.cli.progress import reporter
    from orin_llm.models.store import resolve
    from orin_llm.models.widen import widen

    path = resolve(source)
    with reporter(quiet) as report:
        widen(path, out, force=force, reporter=report)
    _print_path(out)


def _print_path(path: Path) -> None:
    _allow_paths_on_stdout()
    print(path)


def _allow_paths_on_stdout() -> None:
    """A path need not be UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")


def _store() -> Store:
    from orin_llm.models.store import Store

    return Store()
