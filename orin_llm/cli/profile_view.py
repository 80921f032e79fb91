"""What `orin-llm profile` prints: tables and facts for people, and objects for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.render import tolerate_narrow_encoding, visible
from orin_llm.cli.table import print_table
from orin_llm.profiles.key import ProfileKey, differences
from orin_llm.profiles.profile import values_text
from orin_llm.profiles.store import Damaged, ProfileStore, StoredProfile

_LABEL_CELLS = 14
_EVIDENCE_CELLS = 24  # a longer name has a line of its own


def difference_text(key: ProfileKey, here: ProfileKey) -> str:
    """What of a key's machine is not as it is here; "" where nothing is. The model is left out."""
    same_model = replace(here, model=key.model, fingerprint=key.fingerprint)
    return ", ".join(difference.text for difference in differences(key, same_model))


def setup_text(key: ProfileKey) -> str:
    """`p3701-0005 MAXN, 8 TPCs, 3199 MHz`, `PC, AMD EPYC, 2 cores`."""
    parts = [" ".join(part for part in (key.module or key.board, key.mode) if part)]
    if key.gpu_units is not None:
        parts.append(f"{key.gpu_units} TPCs")
    if key.emc_cap_mhz is not None:
        parts.append(f"memory {key.emc_cap_mhz} MHz")
    if key.gpu is not None and key.module is None:
        parts.append(key.gpu)
    if key.gpu is None:
        parts += [key.cpu or "", f"{key.cores} cores" if key.cores else ""]
    return ", ".join(part for part in parts if part)


def print_listing(
    store: ProfileStore,
    stored: Sequence[StoredProfile],
    damaged: Sequence[Damaged],
    here: ProfileKey | None,
) -> None:
    """A table on stdout; what needs attention on stderr."""
    rows = []
    for entry in stored:
        profile = entry.profile
        differs = difference_text(profile.key, here) if here else ""
        name = f"{entry.name} (ships)" if entry.shipped else entry.name
        fits = f"differs in {differs}" if differs else "fits here"
        rows.append([name, profile.key.model, profile.goal, values_text(profile.values), fits])
    rows += [[entry.name, "?", "?", "damaged", entry.problem] for entry in damaged]
    if rows:
        print_table(["NAME", "MODEL", "GOAL", "SETTINGS", "THIS MACHINE"], rows)
    else:
        print(f"no profiles in {store.root} yet: `orin-llm tune` makes one", file=sys.stderr)


def print_profile(stored: StoredProfile, here: ProfileKey) -> None:
    """All that a profile says, one fact a line."""
    tolerate_narrow_encoding(sys.stdout)
    profile, key = stored.profile, stored.profile.key
    differs = difference_text(key, here)
    rows = [
        ("file", str(stored.path)),
        ("model", f"{key.model}, weights {key.fingerprint[:12]}"),
        ("for", setup_text(key)),
        ("here", f"not used by itself: it differs in {differs}" if differs else "fits"),
        ("goal", profile.goal),
        ("settings", values_text(profile.values) or "the defaults"),
        ("tuned", f"{profile.created}, orin-llm {key.version}"),
    ]
    for label, text in rows:
        print_paragraph(text, label, _LABEL_CELLS)
    if profile.evidence:
        print("\nevidence")
        _print_nested(profile.evidence, "  ")


def _print_nested(table: Mapping[str, Any], indent: str) -> None:
    for name, value in table.items():
        label = f"{indent}{visible(name)}"
        if isinstance(value, Mapping) and value:
            print(label)
            _print_nested(value, indent + "  ")
        elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
            print(label)
            for item in value:
                print_paragraph(_inline(item), f"{indent}  - ", len(indent) + 4)
        elif len(label) < _EVIDENCE_CELLS:
            print_paragraph(_inline(value), label, _EVIDENCE_CELLS)
        else:
            print(label)
            print_paragraph(_inline(value), "", _EVIDENCE_CELLS)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inline(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return "; ".join(map(_inline, value)) or "none"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def listing_json(
    store: ProfileStore,
    stored: Sequence[StoredProfile],
    damaged: Sequence[Damaged],
    here: ProfileKey | None,
) -> dict[str, Any]:
    """For `profile list --json`."""
    return {
        "folder": str(store.root),
        "profiles": [profile_json(entry, here) for entry in stored],
        "damaged": [{"name": d.name, "problem": d.problem} for d in damaged],
    }


def profile_json(stored: StoredProfile, here: ProfileKey | None) -> dict[str, Any]:
    """One profile for `--json`; `differs` is null where it fits this machine."""
    differs = difference_text(stored.profile.key, here) if here else ""
    return {
        "name": stored.name,
        "path": str(stored.path),
        "shipped": stored.shipped,
        "differs": differs or None,
        **stored.profile.to_json(),
    }
