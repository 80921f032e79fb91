"""Which of the stored profiles fit this machine and model."""

from __future__ import annotations

from dataclasses import dataclass

from orin_llm.profiles.key import Difference, ProfileKey, differences
from orin_llm.profiles.store import Damaged, ProfileStore, StoredProfile


@dataclass(frozen=True)
class Near:
    """A profile that would fit but for some differences."""

    stored: StoredProfile
    differences: tuple[Difference, ...]

    @property
    def text(self) -> str:
        """`NAME differs in the power mode (MAXN, here MODE_30W)`."""
        return f"{self.stored.name} differs in {', '.join(d.text for d in self.differences)}"


@dataclass(frozen=True)
class Match:
    """What was found for a key.

    Attributes:
        exact: the profile to use: whose key is this one; the newest of the user's, else of those
            that ship.
        others: that fit as well, tuned for other goals or earlier.
        near: of the same model on another machine or in another mode, or of other weights of the
            same name on this one; those with the fewest differences first.
        damaged: files that could not be read.
    """

    exact: StoredProfile | None
    others: tuple[StoredProfile, ...] = ()
    near: tuple[Near, ...] = ()
    damaged: tuple[Damaged, ...] = ()


def find(key: ProfileKey, store: ProfileStore | None = None) -> Match:
    """Look for profiles with this key, and near it."""
    stored, damaged = (store or ProfileStore()).all()
    fitting: list[StoredProfile] = []
    near: list[Near] = []
    for candidate in stored:
        found = differences(candidate.profile.key, key)
        if not found:
            fitting.append(candidate)
        elif _is_near(candidate.profile.key, key, found):
            near.append(Near(candidate, found))
    fitting.sort(key=lambda s: (not s.shipped, s.profile.created), reverse=True)
    near.sort(key=lambda n: (len(n.differences), n.stored.name))
    return Match(
        exact=fitting[0] if fitting else None,
        others=tuple(fitting[1:]),
        near=tuple(near),
        damaged=tuple(damaged),
    )


def _is_near(there: ProfileKey, here: ProfileKey, found: tuple[Difference, ...]) -> bool:
    if there.fingerprint == here.fingerprint:
        return True
    return there.model == here.model and [d.field for d in found] == ["fingerprint"]
