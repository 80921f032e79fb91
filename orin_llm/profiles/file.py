"""A profile as a file in TOML, which may come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from orin_llm.errors import UsageError
from orin_llm.host.toml_file import parse_toml, read_toml
from orin_llm.profiles.key import ProfileKey
from orin_llm.profiles.profile import Profile
from orin_llm.profiles.toml_text import toml_text

SCHEMA = 1
MAX_TEXT_CHARS = 256  # of a text outside the evidence
_NUMBERS = ("gpu_units", "emc_cap_mhz", "cores")
_NEEDED = ("model", "fingerprint", "version")
_TEXTS = ("board", "module", "mode", "gpu", "cpu", *_NEEDED)
_FINGERPRINT_CHARS = 64
_TOP = ("schema", "goal", "created", "key", "values", "evidence")


def profile_text(profile: Profile) -> str:
    """The profile in TOML; `parse_profile` reads it back."""
    return toml_text({"schema": SCHEMA, **profile.to_json()})


def read_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        UsageError: it cannot be read or used; the message says where and what is allowed.
    """
    return _checked(read_toml(path), str(path))


def parse_profile(content: bytes, where: str) -> Profile:
    """The profile that is written in `content`; `where` names it in errors.

    Raises:
        UsageError: it is too long, not TOML, or no profile that can be used.
    """
    return _checked(parse_toml(content, where), where)


def _checked(document: Mapping[str, Any], where: str) -> Profile:
    try:
        return _profile(document)
    except (UsageError, ValueError) as error:
        raise UsageError(f"{where} is no profile that can be used: {error}") from error


def _profile(document: Mapping[str, Any]) -> Profile:
    if document.get("schema") != SCHEMA:
        raise ValueError(
            f"schema is {document.get('schema')!r}, expected {SCHEMA}: it is no profile, or one "
            "of another version of orin-llm"
        )
    _only(document, _TOP, "the file")
    return Profile(
        key=_key(_table(document, "key")),
        values=_table(document, "values"),
        goal=_text(document, "goal"),
        evidence={name: _plain(v) for name, v in _table(document, "evidence").items()},
        created=_text(document, "created"),
    )


def _key(table: Mapping[str, Any]) -> ProfileKey:
    _only(table, (*_TEXTS, *_NUMBERS), "[key]")
    fields: dict[str, Any] = {}
    for name in _TEXTS:
        fields[name] = _text(table, name) if name in table or name in _NEEDED else None
    for name in _NUMBERS:
        number = table.get(name)
        if number is not None and (type(number) is not int or not 0 < number < 1 << 31):
            raise ValueError(f"{name} is {number!r}: expected a whole number above 0")
        fields[name] = number
    fingerprint = fields["fingerprint"]
    if len(fingerprint) != _FINGERPRINT_CHARS or set(fingerprint) - set("0123456789abcdef"):
        raise ValueError(f"fingerprint is {fingerprint!r}: expected 64 hexadecimal digits")
    return ProfileKey(**fields)


def _only(table: Mapping[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in allowed:
            raise ValueError(f"there is no {name!r} in {where}. Allowed: {', '.join(allowed)}")


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = document.get(name)
    if not isinstance(table, dict):
        found = "missing" if table is None else repr(table)
        raise ValueError(f"the table [{name}] is {found}")
    return table


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT_CHARS:
        found = "missing" if value is None else repr(value)
        raise ValueError(f"{name} is {found}: expected text of 1 … {MAX_TEXT_CHARS} characters")
    return value


def _plain(value: Any) -> Any:
    """Without the types that TOML has and JSON has not."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    return value
