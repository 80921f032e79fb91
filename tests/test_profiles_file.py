"""Profiles as files in TOML: what is written reads back, and what is none is told."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles_support import TUNED

from orin_llm.errors import UsageError
from orin_llm.host.toml_file import MAX_FILE_BYTES
from orin_llm.profiles.file import parse_profile, profile_text, read_profile
from orin_llm.profiles.toml_text import toml_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def changed(text: str, old: str, new: str) -> bytes:
    assert old in text
    return text.replace(old, new).encode()


def test_a_profile_reads_back_as_it_was_written() -> None:
    evidence = {
        "trials": [{"chunk_size": 256, "ttft_ms": {"512": 12.5}, "noise": False}],
        "command": 'orin-llm tune "ü\\\n\x7f',
        "none": [],
    }
    profile = replace(TUNED, evidence=evidence, goal="ttft")
    assert parse_profile(profile_text(profile).encode(), "x") == profile


PLAIN = st.recursive(
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), PLAIN, max_size=4))
def test_whatever_is_written_in_toml_reads_back(document: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(document)) == document


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1 << 64, object()])
def test_what_has_no_form_in_toml_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        toml_text({"a": [value]})


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("schema = 1", "schema = 2", "schema is 2, expected 1"),
        ("schema = 1\n", "", "schema is None"),
        ("schema = 1", "schema = 1\nextra = 1", "there is no 'extra' in the file"),
        ("chunk_size = 256", "chunk_size = 0", "chunk_size is 0: expected 1 … 8192"),
        ("chunk_size = 256", "chunk_size = 1.5", "chunk_size is 1.5: expected a whole number"),
        ("chunk_size = 256", "chunk_size = true", "chunk_size is True"),
        ("chunk_size = 256", "hooks = 'none'", "there is no setting 'hooks' in a profile"),
        ("chunk_size = 256", "kernels = '@/etc/passwd'", "kernels names a file"),
        ("chunk_size = 256", "kernels = 'no=1'", "unknown choice 'no'"),
        ("chunk_size = 256", "chunk_size = []", "chunk_size is []"),
        ('kv_type = "q8_0"', 'kv_type = "q9"', "q9"),
        ("cores = 12", "cores = 0", "cores is 0: expected a whole number above 0"),
        ("cores = 12", "cores = '12'", "cores is '12'"),
        ('mode = "MAXN"', "mode = 3", "mode is 3: expected text"),
        ('mode = "MAXN"', 'mode = ""', "mode is ''"),
        ('mode = "MAXN"', f'mode = "{"x" * 300}"', "expected text of 1 … 256 characters"),
        ("ab" * 32, "../../etc", "expected 64 hexadecimal digits"),
        ('model = "llama-3-8b"\n', "", "model is missing"),
        ('goal = "balanced"', 'goal = "best"', "the goal is 'best'"),
        ("[values]", "[value]", "there is no 'value' in the file"),
        ("[values]", "[[values]]", "the table [values] is [{"),
        ("[key]", "key = 3\n[keys]", "there is no 'keys' in the file"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_by_what_is_wrong(old: str, new: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_profile(changed(profile_text(TUNED), old, new), "x.toml")
    assert str(error.value).startswith("x.toml is no profile that can be used: ")
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "schema is None"),
        (b"\xff\xfe\x00", "x is not UTF-8: byte 0"),
        (b"a = [" * 5000, "x is not TOML"),
        (b"schema = " + b"9" * 5000, "x is not TOML"),
        (b"\x00", "x is not TOML"),
        (b"#" * (MAX_FILE_BYTES + 1), f"x is too long: at most {MAX_FILE_BYTES} bytes"),
    ],
)
def test_what_is_no_toml_is_told(content: bytes, told: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_profile(content, "x")
    assert told in str(error.value)


def test_a_folder_and_a_missing_file_are_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_profile(path)


def test_dates_and_infinities_in_the_evidence_become_what_json_has() -> None:
    text = profile_text(TUNED) + "day = 2026-01-02\nall = [inf, { at = 07:00:00 }]\n"
    evidence = parse_profile(text.encode(), "x").evidence
    assert evidence == {"day": "2026-01-02", "all": ["inf", {"at": "07:00:00"}]}
