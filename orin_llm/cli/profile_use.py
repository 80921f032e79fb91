"""The profile that a command's engine takes its settings from, where no flag says otherwise."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol

from orin_llm.cli.option_groups import Given
from orin_llm.cli.render import visible
from orin_llm.errors import UsageError

if TYPE_CHECKING:
    from orin_llm.profiles.here import Use

# Fields of EngineConfig whose flag is called otherwise.
_FIELD_OF = {"flash": "flash_attention"}


class ProfiledOptions(Protocol):
    """A group of flags, a dataclass, that makes engines."""

    @property
    def model(self) -> str: ...
    @property
    def gpu_layers(self) -> int: ...
    @property
    def profile(self) -> str | None: ...
    @property
    def no_profile(self) -> bool: ...
    @property
    def given(self) -> Given: ...


def profile_settings(options: ProfiledOptions, *, quiet: bool) -> dict[str, int | str]:
    """Settings of the engine out of the profile that is named, or else the one that fits.

    Flags and their environment mirrors win. One line on stderr says which profile is used, or
    offers one that nearly fits; none if `quiet`.

    Raises:
        UsageError: the profile that is named cannot be used, or `--no-profile` is there, too.
        ModelFileError: the model is missing or damaged.
    """
    wanted = _wanted(options)
    if wanted is False:
        return {}
    use = _use(options, wanted, quiet)
    if use is None:
        return {}
    given = given_fields(options)
    _tell(use.told(given), quiet)
    return {name: value for name, value in use.profile.values.items() if name not in given}


def named_settings(
    options: Any, model: str, profile: str, gpu_layers: int, *, quiet: bool
) -> dict[str, int | str]:
    """Settings of the profile that is named, where the group's flags say nothing; told on stderr
    unless `quiet`.

    Raises:
        UsageError: it cannot be used.
        ModelFileError: the model is missing or damaged.
    """
    from orin_llm.models.store import resolve
    from orin_llm.profiles.here import named

    use, given = named(profile, resolve(model), gpu_layers), given_fields(options)
    _tell(use.told(given), quiet)
    return {name: value for name, value in use.profile.values.items() if name not in given}


def _wanted(options: ProfiledOptions) -> str | bool | None:
    """The profile that is named; None: the one that fits; False: none. The command line wins."""
    if options.profile is None or not options.no_profile:
        return False if options.no_profile else options.profile
    typed = options.given.typed
    if ("profile" in typed) == ("no_profile" in typed):
        raise UsageError("--profile names a profile, and --no-profile wants none: leave one out")
    return options.profile if "profile" in typed else False


def _use(options: ProfiledOptions, wanted: str | bool | None, quiet: bool) -> Use | None:
    from orin_llm.models.store import resolve
    from orin_llm.profiles.here import Use, find_here, named, offer
    from orin_llm.profiles.store import ProfileStore

    if isinstance(wanted, str):
        return named(wanted, resolve(options.model), options.gpu_layers)
    if not ProfileStore().names():
        return None
    match = find_here(resolve(options.model), options.gpu_layers)
    if match.exact is None:
        _tell(offer(match), quiet)
        return None
    return Use(match.exact.name, match.exact.profile)


def given_fields(options: Any) -> set[str]:
    """Fields of `EngineConfig` that flags or their environment mirrors set."""
    changed = {f.name for f in fields(options) if getattr(options, f.name) != f.default}
    return {_FIELD_OF.get(name, name) for name in changed | options.given.names}


def _tell(text: str, quiet: bool) -> None:
    if text and not quiet:
        print(visible(text), file=sys.stderr, flush=True)
