"""Choices of kernels: what text and profiles say, and what is said of those that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orin_llm import _native
from orin_llm.engine import EngineConfig, Kernels
from orin_llm.errors import UsageError


def profile(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "profile.json"
    path.write_text(text)
    return path


def test_text_names_choices() -> None:
    assert Kernels.parse("vector_rows=4,product_tokens=3").chosen == {
        "vector_rows": 4,
        "product_tokens": 3,
    }
    assert Kernels.parse(" product_splits = 0 , vector_tokens_q6_K=1 ").chosen == {
        "product_splits": 0,
        "vector_tokens_q6_K": 1,
    }
    config = EngineConfig(kernels="product_splits=2")  # type: ignore[arg-type]
    assert config.kernels == Kernels({"product_splits": 2})
    assert config == EngineConfig(kernels={"product_splits": 2})  # type: ignore[arg-type]
    assert EngineConfig().kernels.chosen == {}


@pytest.mark.parametrize(
    "text, message",
    [
        ("", r"'' chooses nothing in ''.*expected NAME=VALUE.*known choices are vector_tokens, "),
        (
            "product_splits",
            r"'product_splits' chooses nothing in .* \(--kernels, kernels in Python\): expected",
        ),
        ("product_splits=1,", r"'' chooses nothing in 'product_splits=1,'"),
        ("rows=1", r"unknown choice 'rows' in 'rows=1'.*known choices are .*vector_rows"),
        ("=1", "unknown choice ''"),
        ("vector_rows=3", r"vector_rows is 3 in .*: expected 0, 1, 2 or 4$"),
        ("product_splits=-1", r"product_splits is '-1' in .*: expected a whole number, 0 … 64$"),
        ("product_splits=65", r"product_splits is 65 in .*: expected a whole number, 0 … 64$"),
        ("product_splits=1.0", r"product_splits is '1\.0'"),
        ("product_splits=", "product_splits is ''"),
        ("product_splits=²", "product_splits is '²'"),
        (f"product_splits={'9' * 5000}", "product_splits is '999"),
        (
            "product_splits=1,vector_rows=1,product_splits=1",
            "'product_splits' is twice in .*: leave one of them out",
        ),
    ],
)
def test_what_text_cannot_say_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Kernels.parse(text)


def test_a_profile_holds_choices_beside_other_things(tmp_path: Path) -> None:
    path = profile(tmp_path, json.dumps({"kernels": {"vector_rows": 2}, "chunk_size": 256}))
    assert Kernels.parse(f"@{path}") == Kernels.read(path) == Kernels({"vector_rows": 2})


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "profile.json .*is no JSON: "),
        ("[" * 100_000, "is no JSON: "),
        ("\ud800", "is no JSON: "),
        ("[]", 'expected an object with an object "kernels" of choices'),
        ("{}", 'expected an object with an object "kernels" of choices'),
        ('{"kernels": [1]}', 'expected an object with an object "kernels" of choices'),
        ('{"kernels": {"rows": 1}}', "unknown choice 'rows' in the profile .*: known choices are "),
        (
            '{"kernels": {"product_splits": "1"}}',
            "product_splits is '1' in the profile .*: expected a whole",
        ),
        ('{"kernels": {"product_splits": true}}', "product_splits is True"),
        ('{"kernels": {"product_splits": 1.0}}', r"product_splits is 1\.0"),
        ('{"kernels": {"product_splits": NaN}}', "product_splits is nan"),
        (
            '{"kernels": {"product_splits": 1, "product_splits": 2}}',
            "'product_splits' is twice in the profile",
        ),
    ],
)
def test_a_profile_that_says_something_else_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(UsageError, match=message):
        Kernels.parse(f"@{path}")


def test_a_profile_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.json .*cannot be read: No such file"):
        Kernels.parse(f"@{tmp_path / 'missing.json'}")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        Kernels.parse("@")


def test_in_python_choices_are_checked_as_well() -> None:
    with pytest.raises(UsageError, match="vector_rows is 3 in the choices of kernels"):
        Kernels({"vector_rows": 3})
    with pytest.raises(
        UsageError, match="kernels is 4: expected Kernels, a dict, or text: NAME=VALUE"
    ):
        EngineConfig(kernels=4)  # type: ignore[arg-type]


def test_the_manual_has_every_choice() -> None:
    manual = (Path(__file__).parents[1] / "docs" / "engine.md").read_text()
    for choice in _native.kernel_choices():
        name = choice["name"]
        general = "vector_tokens_TYPE" if name.startswith("vector_tokens_") else name
        assert f"| `{general}` |" in manual, name
