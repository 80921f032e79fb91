"""Names, references, parts and quantizations, as users and repositories write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orin_llm.errors import ModelFileError, UsageError
from orin_llm.gguf import split
from orin_llm.models import quants, reference
from orin_llm.models.names import MAX_NAME_CHARS, derive, derive_from_url, normalise
from orin_llm.models.reference import (
    HubReference,
    NameReference,
    PathReference,
    UrlReference,
    parse,
)


def is_one_safe_folder(name: str) -> bool:
    path = Path("/store") / name
    return path.resolve().parent == Path("/store") and not name.startswith(".") and "\0" not in name


@given(st.text())
def test_a_name_is_refused_or_one_folder_inside_the_store(text: str) -> None:
    try:
        name = normalise(text)
    except UsageError:
        return
    assert is_one_safe_folder(name) and len(name) <= MAX_NAME_CHARS
    assert normalise(name) == name


@given(st.text())
def test_a_derived_name_is_valid(text: str) -> None:
    try:
        name = derive(text)
    except UsageError:
        return
    assert normalise(name) == name


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "  ",
        "../x",
        "/etc/passwd",
        "a/b",
        "a\\b",
        ".hidden",
        "..",
        "-x",
        "a\0b",
        "a b",
        "é",
        "x" * 97,
    ],
)
def test_what_could_leave_the_store_is_no_name(bad: str) -> None:
    with pytest.raises(UsageError):
        normalise(bad)


def test_case_and_blanks_do_not_matter_in_a_name() -> None:
    assert normalise(" SmolLM2 ") == "smollm2"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "qwen3-8b-q4_k_m"),
        ("Big-00001-of-00003.gguf", "big"),
        ("my model (1).GGUF", "my-model-1"),
        ("...x.gguf", "x"),
    ],
)
def test_a_files_name_makes_the_models_name(file: str, name: str) -> None:
    assert derive(file) == name


def test_a_name_of_nothing_but_signs_asks_for_another() -> None:
    with pytest.raises(UsageError, match="--name"):
        derive("---.gguf")


def test_an_addresss_last_part_makes_the_name() -> None:
    assert derive_from_url("https://h/a/My%20Model.gguf?download=true") == "my-model"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("smollm2", NameReference("smollm2")),
        (" SmolLM2 ", NameReference("smollm2")),
        ("hf:owner/repo", HubReference("owner/repo")),
        ("HF:owner/repo:q8_0", HubReference("owner/repo", "Q8_0")),
        ("hf:o/r/sub/m.gguf", HubReference("o/r", file="sub/m.gguf")),
        ("https://h/m.gguf?x=1", UrlReference("https://h/m.gguf?x=1")),
        ("./model", PathReference(Path("model"))),
        ("model.gguf", PathReference(Path("model.gguf"))),
        ("/a/b", PathReference(Path("/a/b"))),
    ],
)
def test_a_reference_is_told_by_its_form(text: str, expected: object) -> None:
    assert parse(text) == expected


def test_the_home_directory_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse("~/m.gguf") == PathReference(Path("/home/someone/m.gguf"))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("", "no model given"),
        ("a\0b", "NUL"),
        ("hf:repo", "does not name a repository"),
        ("hf:", "does not name a repository"),
        ("hf:a/../b", "does not name a"),
        ("hf:a/b:", "not a quantization"),
        ("hf:a/b:Q4 K", "not a quantization"),
        ("hf:a/b/../../m.gguf", "does not name a .gguf file"),
        ("hf:a/b/readme.md", "does not name a .gguf file"),
        ("https://", "names no file"),
        ("https://host/", "names no file"),
        ("https://user:pw@host/m.gguf", "password"),
        ("https://host:port/m.gguf", "not an address"),
        ("https://host/m odel.gguf", "not an address"),
        ("ftp://host/m.gguf", "use https:"),
        ("llama3:8b", "cannot name a model"),
    ],
)
def test_a_malformed_reference_says_what_was_expected(bad: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(bad)


@given(st.text(max_size=60))
@example("~nobody-of-that-name")
def test_any_text_is_a_reference_or_a_usage_error(text: str) -> None:
    try:
        parse(text)
    except UsageError:
        return


def test_a_reference_is_kept_without_its_secrets() -> None:
    assert str(parse("https://h/m.gguf?token=secret#x")) == "https://h/m.gguf"
    assert str(parse("https://h/m.gguf?v=2&token=secret")) == "https://h/m.gguf?v=2"


def test_no_quantization_means_q4_k_m() -> None:
    assert str(parse("hf:a/b")) == str(parse("hf:a/b:Q4_K_M")) == "hf:a/b:Q4_K_M"


def test_a_missing_path_that_looks_like_a_repository_says_so() -> None:
    with pytest.raises(ModelFileError, match="hf:owner/repo"):
        reference.require_file(Path("owner/repo"))


def test_parts_are_listed_in_order() -> None:
    assert split.parts_of("m-00002-of-00003.gguf") == (
        "m-00001-of-00003.gguf",
        "m-00002-of-00003.gguf",
        "m-00003-of-00003.gguf",
    )
    assert split.parts_of("m.gguf") == ("m.gguf",)


@pytest.mark.parametrize("bad", ["m-00000-of-00003.gguf", "m-00004-of-00003.gguf"])
def test_an_impossible_part_number_is_refused(bad: str) -> None:
    with pytest.raises(ModelFileError, match="expected a part from 1 to 3"):
        split.parts_of(bad)


def test_models_with_missing_parts_are_left_out() -> None:
    files = ["a-00001-of-00002.gguf", "b-00001-of-00001.gguf", "c.gguf", "readme.md"]
    assert [g.base for g in split.group(files)] == ["b", "c"]


@pytest.mark.parametrize(
    ("base", "label"),
    [
        ("Llama-3.2-1B-Instruct-Q4_K_M", "Q4_K_M"),
        ("qwen2.5-7b-instruct-q8_0", "Q8_0"),
        ("Qwen3-8B-UD-Q4_K_XL", "UD-Q4_K_XL"),
        ("model.i1-IQ2_XXS", "IQ2_XXS"),
        ("BF16/Model-BF16", "BF16"),
        ("Q6_K/model", "Q6_K"),
        ("gpt-oss-20b-mxfp4", "MXFP4"),
        ("Q4_K_M/m-Q8_0", "Q8_0"),
        ("SmolLM2-135M-Instruct.Q4_1", "Q4_1"),
        ("just-a-model", None),
        ("Q1x-model", None),
    ],
)
def test_the_quantization_is_read_off_the_name(base: str, label: str | None) -> None:
    assert quants.label(base) == label


REPO = [
    "README.md",
    "M-Q4_K_M.gguf",
    "M-Q8_0.gguf",
    "M-UD-Q4_K_XL.gguf",
    "BF16/M-BF16-00001-of-00002.gguf",
    "BF16/M-BF16-00002-of-00002.gguf",
    "mmproj-F16.gguf",
    "imatrix.gguf",
]


def chosen(text: str, files: list[str] = REPO) -> tuple[str, ...]:
    wanted = parse(text)
    assert isinstance(wanted, HubReference)
    return quants.choose(files, wanted)


def test_q4_k_m_is_taken_by_default() -> None:
    assert chosen("hf:o/r") == ("M-Q4_K_M.gguf",)


def test_a_quantization_is_taken_in_any_case_and_with_all_parts() -> None:
    assert chosen("hf:o/r:bf16") == (
        "BF16/M-BF16-00001-of-00002.gguf",
        "BF16/M-BF16-00002-of-00002.gguf",
    )


def test_a_dynamic_quantization_stands_in_where_it_is_the_only_one() -> None:
    assert chosen("hf:o/r:Q4_K_XL") == ("M-UD-Q4_K_XL.gguf",)


def test_a_file_can_be_named_exactly() -> None:
    assert chosen("hf:o/r/M-Q8_0.gguf") == ("M-Q8_0.gguf",)


def test_a_single_model_needs_no_quantization() -> None:
    assert chosen("hf:o/r", ["only-Q8_0.gguf", "mmproj-F16.gguf"]) == ("only-Q8_0.gguf",)


def test_a_quantization_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(UsageError, match="no Q2_K file") as caught:
        chosen("hf:o/r:Q2_K")
    for choice in ("hf:o/r:Q4_K_M", "hf:o/r:Q8_0", "hf:o/r:UD-Q4_K_XL", "hf:o/r:BF16"):
        assert f"  {choice}" in str(caught.value).splitlines()
    assert "mmproj" not in str(caught.value)


def test_every_choice_offered_can_be_pulled() -> None:
    files = [*REPO, "other/M2-Q8_0.gguf", "plain.gguf"]
    with pytest.raises(UsageError) as caught:
        chosen("hf:o/r:Q2_K", files)
    offers = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert len({chosen(offer, files) for offer in offers}) == len(offers) == 6


def test_two_files_of_one_quantization_are_told_apart_by_name() -> None:
    with pytest.raises(UsageError, match="2 files of Q8_0") as caught:
        chosen("hf:o/r:Q8_0", ["a/M-Q8_0.gguf", "b/M-Q8_0.gguf"])
    assert "hf:o/r/a/M-Q8_0.gguf" in str(caught.value)


def test_a_repository_without_gguf_says_so() -> None:
    with pytest.raises(UsageError, match=r"no \.gguf model"):
        chosen("hf:o/r", ["model.safetensors"])
