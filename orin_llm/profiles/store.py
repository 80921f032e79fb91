"""Where profiles are: the user's own, and those that ship.

profiles/NAME.toml in the user's data directory, beside the models
"""

from __future__ import annotations

import difflib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import OrinError, UsageError
from orin_llm.host.disk import replacing
from orin_llm.models.names import derive, normalise
from orin_llm.models.store import data_folder
from orin_llm.profiles.file import profile_text, read_profile
from orin_llm.profiles.key import ProfileKey, differences
from orin_llm.profiles.profile import Profile

SUFFIX = ".toml"
_INSTALLED = Path(__file__).with_name("shipped")
_CHECKOUT = Path(__file__).parents[2] / "calibration" / "profiles"


def default_root() -> Path:
    """The user's profiles: `ORIN_LLM_PROFILES`, else `orin-llm/profiles` in the data directory."""
    chosen = os.environ.get("ORIN_LLM_PROFILES")
    return Path(chosen).expanduser().absolute() if chosen else data_folder() / "profiles"


def shipped_root() -> Path:
    """The profiles that come with the program."""
    return next((root for root in (_INSTALLED, _CHECKOUT) if root.is_dir()), _INSTALLED)


@dataclass(frozen=True)
class StoredProfile:
    """A profile with a name.

    Attributes:
        shipped: it came with the program.
    """

    name: str
    path: Path
    profile: Profile
    shipped: bool = False


@dataclass(frozen=True)
class Damaged:
    """A file that should be a profile, and what is wrong with it."""

    name: str
    path: Path
    problem: str


class ProfileStore:
    """The profiles in two folders; a user's hides one of the same name that ships.

    Making one touches nothing on disk.
    """

    def __init__(self, root: Path | None = None, shipped: Path | None = None) -> None:
        self.root = root or default_root()
        self.shipped = shipped or shipped_root()

    def path(self, name: str) -> Path:
        """Where the user's profile `name` is, or would be. UsageError for what cannot be a name."""
        return self.root / (profile_name(name) + SUFFIX)

    def names(self) -> list[str]:
        """Of all profiles, damaged ones too, sorted."""
        return sorted({*_names(self.root), *_names(self.shipped)})

    def all(self) -> tuple[list[StoredProfile], list[Damaged]]:
        """Every profile, by name; and the files that cannot be read as one."""
        good: list[StoredProfile] = []
        damaged: list[Damaged] = []
        for name in self.names():
            try:
                good.append(self.read(name))
            except UsageError as error:
                if (place := self._find(name)) is not None:  # else it was removed meanwhile
                    damaged.append(Damaged(name, place[0], str(error)))
        return good, damaged

    def read(self, name: str) -> StoredProfile:
        """The profile of that name.

        Raises:
            UsageError: there is none, or its file is damaged.
        """
        path, shipped = self._place(name)
        if not os.path.isfile(path):  # to open a pipe is to wait for who writes into it
            raise UsageError(f"{path} is no file, or a link to none")
        return StoredProfile(profile_name(name), path, read_profile(path), shipped)

    def has_own(self, name: str) -> bool:
        """Whether there is a profile of the user's with that name (a damaged one counts)."""
        return os.path.lexists(self.path(name))

    def save(self, name: str, profile: Profile) -> StoredProfile:
        """Write the user's profile `name`, in place of what had that name.

        Raises OrinError where it cannot be written.
        """
        path, text = self.path(name), profile_text(profile)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_text(text, encoding="utf-8")
        except OSError as error:
            raise self._unusable(error) from error
        return StoredProfile(profile_name(name), path, profile)

    def remove(self, name: str) -> Path:
        """Remove the user's profile of that name; what ships stays.

        Raises UsageError where there is none.
        """
        path = self.require_own(name)
        try:
            path.unlink()
        except OSError as error:
            raise self._unusable(error) from error
        return path

    def require_own(self, name: str) -> Path:
        """The file of the user's profile of that name; UsageError where there is none."""
        path, shipped = self._place(name)
        if shipped:
            raise UsageError(f"{name} ships with orin-llm and stays; --no-profile leaves it out")
        return path

    def name_for(self, key: ProfileKey, goal: str) -> str:
        """The name of the profile for a key and goal: of model, mode and goal; a number is behind
        it where the user's profile of that name is for another key."""
        plain = derive("-".join(filter(None, (key.model, key.mode, goal))))
        name, number = plain, 1
        while self.has_own(name) and self._is_other(name, key):
            number += 1
            name = f"{plain}-{number}"
        return name

    def _is_other(self, name: str, key: ProfileKey) -> bool:
        try:
            return bool(differences(self.read(name).profile.key, key))
        except UsageError:  # damaged: it may be replaced
            return False

    def _find(self, name: str) -> tuple[Path, bool] | None:
        """The file, and whether it ships; None where there is none."""
        own = self.path(name)
        for path, ships in ((own, False), (self.shipped / own.name, True)):
            if os.path.lexists(path):
                return path, ships
        return None

    def _place(self, name: str) -> tuple[Path, bool]:
        if (found := self._find(name)) is not None:
            return found
        close = difflib.get_close_matches(name, self.names(), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"there is no profile {name!r}{hint} (`orin-llm profile list` shows all)")

    def _unusable(self, error: OSError) -> OrinError:
        why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        return OrinError(
            f"the profiles in {self.root} cannot be used: {why}. ORIN_LLM_PROFILES names another "
            "folder"
        )


def name_of_file(path: Path) -> str:
    """The name that a profile gets from its file's; UsageError where none can be made of it."""
    try:
        return derive(path.name.removesuffix(SUFFIX))
    except UsageError:
        raise UsageError(f"no name can be made of {path.name!r}: choose one with --name") from None


def profile_name(name: str) -> str:
    """The stored form of a profile's name: as a model's, see `models.names.normalise`."""
    try:
        return normalise(name)
    except UsageError as error:
        raise UsageError(str(error).replace("model", "profile")) from None


def _names(folder: Path) -> list[str]:
    try:
        entries = list(folder.iterdir())
    except OSError:  # not there, or not to be read: no profiles
        return []
    names = [e.name.removesuffix(SUFFIX) for e in entries if e.name.endswith(SUFFIX)]
    return [name for name in names if _is_name(name)]


def _is_name(name: str) -> bool:
    try:
        return normalise(name) == name
    except UsageError:
        return False
