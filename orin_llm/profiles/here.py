"""The key of this machine, and the profile that a command uses."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from orin_llm.errors import UsageError
from orin_llm.profiles.file import read_profile
from orin_llm.profiles.key import ProfileKey, differences, key_of, machine_key
from orin_llm.profiles.match import Match, find
from orin_llm.profiles.profile import Profile, values_text
from orin_llm.profiles.store import SUFFIX, ProfileStore

ALL_LAYERS = -1


@dataclass(frozen=True)
class Use:
    """A profile that a command uses.

    Attributes:
        name: of the store, or the file's path.
        differs: in what its key is not that of here, in words; "": it is.
    """

    name: str
    profile: Profile
    differs: str = ""

    def told(self, given: Set[str]) -> str:
        """One line for people. `given`: fields of which flags say the value."""
        used = {name: v for name, v in self.profile.values.items() if name not in given}
        kept = [name for name in self.profile.values if name in given]
        text = f"profile {self.name}: {values_text(used) or 'the defaults'}"
        if kept:
            text += f"; {', '.join(kept)} as given"
        if self.profile.evidence.get("decision") == "unfinished":
            text += "; the search for it did not finish"
        if self.differs:
            text += f". It was not tuned for this setup: it differs in {self.differs}"
        return text


def key_here(model: Path, gpu_layers: int = ALL_LAYERS, root: Path = Path("/")) -> ProfileKey:
    """The key of this machine as it is set now.

    Args:
        model: a GGUF file, or the first one of a split model.
        gpu_layers: of the engine's configuration; 0: no GPU computes.

    Raises:
        ModelFileError: the file is missing or damaged.
    """
    return key_of(model, machine_here(gpu_layers, root))


def machine_here(gpu_layers: int = ALL_LAYERS, root: Path = Path("/")) -> ProfileKey:
    """The same of no model: its name and fingerprint are empty."""
    from orin_llm import _native
    from orin_llm.device.stamp import read_stamp

    stamp = read_stamp(root)
    computes = bool(_native.build_info()["cuda"]) and stamp.gpu is not None
    return machine_key(stamp, on_gpu=computes and gpu_layers != 0)


def is_file(wanted: str) -> bool:
    """Whether what the user names is a file, not a profile of the store."""
    return "/" in wanted or wanted.endswith(SUFFIX)


def find_here(model: Path, gpu_layers: int, store: ProfileStore | None = None) -> Match:
    """The stored profiles that fit the model on this machine, and those near.

    Where only some layers are on the GPU none is looked for: nothing is tuned for that.
    Nothing is read of model and machine where no profiles are.
    """
    store = store or ProfileStore()
    if gpu_layers not in (ALL_LAYERS, 0) or not store.names():
        return Match(None)
    return find(key_here(model, gpu_layers), store)


def named(wanted: str, model: Path, gpu_layers: int, store: ProfileStore | None = None) -> Use:
    """The profile that the user names: in the store, or a file.

    Raises:
        UsageError: there is none, or it is damaged.
        ModelFileError: the model is missing or damaged.
    """
    if not wanted.strip():
        raise UsageError("the profile's name is empty: `orin-llm profile list` shows all")
    if is_file(wanted):
        profile = read_profile(Path(wanted).expanduser())
    else:
        profile = (store or ProfileStore()).read(wanted).profile
    found = differences(profile.key, key_here(model, gpu_layers))
    return Use(wanted, profile, ", ".join(difference.text for difference in found))


def offer(match: Match) -> str:
    """What to say where no profile fits: those near are offered; "" where there is nothing."""
    if match.near:
        first, *more = match.near
        others = f" ({len(more)} more: orin-llm profile list)" if more else ""
        return (
            f"profile: none for this setup. {first.text}{others}; "
            f"--profile {first.stored.name} takes it all the same"
        )
    if match.damaged:
        return f"profile: none is used; {match.damaged[0].problem}"
    return ""
