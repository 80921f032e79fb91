"""`orin-llm profile`: list, show, export, import and remove tuned settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orin_llm.cli.json_output import print_json
from orin_llm.errors import OrinError, UsageError

if TYPE_CHECKING:
    from orin_llm.profiles.store import StoredProfile

app = typer.Typer(
    name="profile",
    help="List, show and exchange tuned settings.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Name = Annotated[str, typer.Argument(help="Name of the profile.", metavar="NAME")]
STDIO = Path("-")


@app.command("list")
def list_profiles(as_json: Json = False) -> None:
    """List the profiles, and what of each differs from this machine as it is set now."""
    from orin_llm.cli.profile_view import listing_json, print_listing
    from orin_llm.profiles.here import machine_here
    from orin_llm.profiles.store import ProfileStore

    store = ProfileStore()
    stored, damaged = store.all()
    here = machine_here() if stored else None
    if as_json:
        print_json(listing_json(store, stored, damaged, here))
    else:
        print_listing(store, stored, damaged, here)


@app.command("show")
def show_profile(
    wanted: Annotated[str, typer.Argument(help="Name of the profile, or a file.", metavar="NAME")],
    as_json: Json = False,
) -> None:
    """Show a profile: its settings, what they are for, and what was measured."""
    from orin_llm.cli.profile_view import print_profile, profile_json
    from orin_llm.profiles.here import machine_here

    stored, here = _read(wanted), machine_here()
    if as_json:
        print_json(profile_json(stored, here))
    else:
        print_profile(stored, here)


@app.command("export")
def export_profile(
    name: Name,
    out: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write; -: standard output.")
    ] = STDIO,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a profile's TOML, for another machine of the same kind."""
    from orin_llm.models.output_file import new_file
    from orin_llm.profiles.file import profile_text

    text = profile_text(_read(name).profile)
    if out == STDIO:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return
    with new_file(out, force=force) as part:
        part.write_text(text, encoding="utf-8")


@app.command("import")
def import_profile(
    file: Annotated[Path, typer.Argument(help="The file; -: standard input.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Name it; as the file is called if not given.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the profile that has the name.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Add a profile from a file; nothing in it is used that an engine could not have."""
    from orin_llm.cli.profile_view import difference_text, profile_json
    from orin_llm.cli.render import visible
    from orin_llm.host.toml_file import MAX_FILE_BYTES
    from orin_llm.profiles.file import parse_profile, read_profile
    from orin_llm.profiles.here import machine_here
    from orin_llm.profiles.store import ProfileStore, name_of_file

    if file == STDIO:
        if name is None:
            raise UsageError("what comes from standard input needs a name: --name NAME")
        profile = parse_profile(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "standard input")
    else:
        profile = read_profile(file)
    store = ProfileStore()
    wanted = name if name is not None else name_of_file(file)
    if store.has_own(wanted) and not force:
        raise UsageError(f"there is a profile {wanted!r}: --force replaces it, --name renames this")
    saved, here = store.save(wanted, profile), machine_here()
    if as_json:
        print_json(profile_json(saved, here))
        return
    differs = difference_text(saved.profile.key, here)
    used = f"offered, not used: it differs in {differs}" if differs else "used on this machine"
    print(visible(f"{saved.name}: for {profile.key.model}, {used}"), file=sys.stderr)


@app.command("rm")
def remove_profiles(
    names: Annotated[list[str], typer.Argument(help="Names of profiles.", metavar="NAME...")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove profiles."""
    from orin_llm.cli.confirm import confirmed
    from orin_llm.profiles.store import ProfileStore

    store = ProfileStore()
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        store.require_own(name)
    if not yes and not confirmed(f"Remove {', '.join(wanted)}?"):
        raise OrinError("nothing was removed")
    for name in wanted:
        store.remove(name)
        print(f"removed {name}", file=sys.stderr)


def _read(wanted: str) -> StoredProfile:
    """A profile by its name or file; UsageError where there is none."""
    from orin_llm.profiles.file import read_profile
    from orin_llm.profiles.here import is_file
    from orin_llm.profiles.store import ProfileStore, StoredProfile

    if is_file(wanted):
        path = Path(wanted)
        return StoredProfile(str(path), path, read_profile(path))
    return ProfileStore().read(wanted)
