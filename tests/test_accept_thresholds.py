"""Limits by board and model: those that ship, files of users, and flags."""

from __future__ import annotations

from pathlib import Path

import pytest
from accept_support import LIMITS, limits_file
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_llm.accept.indicators import CRITERIA, INDICATORS, chosen
from orin_llm.accept.thresholds import Subject, read_thresholds
from orin_llm.errors import UsageError

ORIN = Subject(("p3701-0005", "a kit"), ("my-model",), "llama", "Q4_K_M", 8_030_261_248)
PC = Subject(("Workstation 4", "AMD EPYC"), ("smollm2", "SmolLM2 135M"), "llama", "Q4_1", 1345)


def values(subject: Subject, path: Path | None = None) -> dict[str, float]:
    limits = read_thresholds(path).limits(subject)
    return {name: limit.value for name, limit in limits.items()}


def test_an_agx_orin_with_llama_3_8b_in_q4_k_m_has_the_seven_limits() -> None:
    assert values(ORIN) == LIMITS
    assert LIMITS.keys() == CRITERIA.keys()


@pytest.mark.parametrize(
    "other",
    [
        PC,
        Subject(("p3767-0000",), ("m",), "llama", "Q4_K_M", 8_030_261_248),
        Subject(("p3701-0005",), ("m",), "llama", "Q8_0", 8_030_261_248),
        Subject(("p3701-0005",), ("m",), "llama", "Q4_K_M", 3_210_000_000),
        Subject(("p3701-0005",), ("m",), "qwen3", "Q4_K_M", 8_030_261_248),
    ],
    ids=["a PC", "Orin NX", "Q8_0", "3B", "another architecture"],
)
def test_any_other_board_or_model_has_only_those_that_hold_everywhere(other: Subject) -> None:
    assert values(other) == {"hit_rate_percent": 99.2, "rope_out_of_bounds": 0, "ppl_ratio": 1.2}


@pytest.mark.parametrize(
    ("keys", "fits"),
    [
        ('board = "workstation*"', True),
        ('board = ["p3701-*", "*epyc*"]', True),
        ('board = "p3701-*"', False),
        ('model = "smollm2*"', True),
        ('model = "smol"', False),
        ('quant = "q4_1"', True),
        ('architecture = "qwen3"', False),
        ("parameters = [1000, 1345]", True),
        ("parameters = [1346, 2000]", False),
        ("", True),
    ],
)
def test_an_entry_is_for_whom_it_names(tmp_path: Path, keys: str, fits: bool) -> None:
    path = limits_file(tmp_path, f"[[limits]]\n{keys}\nttft_std_ms = 7\n")
    assert values(PC, path).get("ttft_std_ms") == (7 if fits else None)


def test_later_entries_and_files_come_on_top_and_flags_on_top_of_both(tmp_path: Path) -> None:
    path = limits_file(
        tmp_path,
        '[[limits]]\nname = "ours"\nttft_std_ms = 7\nppl_ratio = 1.1\n'
        '[[limits]]\nboard = "p3701-*"\nttft_std_ms = 8\n[shape.ttft]\nrequests = 9\n',
    )
    found = read_thresholds(path)
    limits = found.with_flags({"ppl_ratio": 1.05, "memory_percent": None}).limits(ORIN)
    assert {name: (limit.value, limit.source) for name, limit in limits.items()} == {
        **{name: (v, "AGX Orin, Llama-3-8B Q4_K_M") for name, v in LIMITS.items()},
        "hit_rate_percent": (99.2, "every board and model"),
        "rope_out_of_bounds": (0, "every board and model"),
        "ttft_std_ms": (8, "limits.toml"),
        "ppl_ratio": (1.05, "the command line"),
    }
    assert (found.shapes.ttft.requests, found.shapes.ttft.prompt_tokens) == (9, 512)


BAD = {
    "not TOML": ("ttft_std_ms = = 3", "not TOML"),
    "not UTF-8": (b"\xff\xfe\x00", "not UTF-8"),
    "binary": (b"GGUF\x03\x00\x00\x00" * 10, "not TOML"),
    "too long": (b"#" * (1 << 21), "too long"),
    "unknown table": ("[limit]\nx = 1", "there is no table 'limit'. Allowed: limits, shape"),
    "limits no array": ("[limits]\nttft_std_ms = 1", r"begun by \[\[limits\]\]"),
    "limits of numbers": ("limits = [1]", r"begun by \[\[limits\]\]"),
    "unknown limit": ("[[limits]]\nttft_ms = 1", "there is no key of .* 'ttft_ms'"),
    "text for a limit": ('[[limits]]\nttft_std_ms = "15"', "ttft_std_ms is '15'"),
    "not a number": ("[[limits]]\nttft_std_ms = nan", "ttft_std_ms is nan"),
    "infinite": ("[[limits]]\nttft_std_ms = inf", "ttft_std_ms is inf"),
    "negative": ("[[limits]]\nttft_std_ms = -1", "ttft_std_ms is -1"),
    "truth for a limit": ("[[limits]]\nrope_out_of_bounds = true", "is True"),
    "101 %": ("[[limits]]\nhit_rate_percent = 101", "0 … 100"),
    "board of numbers": ("[[limits]]\nboard = [1]", "board is"),
    "no board": ("[[limits]]\nboard = []", "board is"),
    "name of a number": ("[[limits]]\nname = 3", "name is 3"),
    "range backwards": ("[[limits]]\nparameters = [2, 1]", "parameters is"),
    "range of text": ('[[limits]]\nparameters = ["1", "2"]', "parameters is"),
    "shape no table": ("shape = 3", "shape is 3"),
    "unknown shape": ("[shape.tpot]\nx = 1", r"there is no \[shape.tpot\]"),
    "shape of a number": ("[shape]\nttft = 3", "expected a table"),
    "unknown key of a shape": ("[shape.ttft]\nn = 1", "there is no shape.ttft.n"),
    "no requests": ("[shape.ttft]\nrequests = 0", "2 … 10000"),
    "one request": ("[shape.ttft]\nrequests = 1", "2 … 10000"),
    "a float of tokens": ("[shape.ttft]\nprompt_tokens = 1.5", "whole number"),
    "truth for tokens": ("[shape.ttft]\nprompt_tokens = true", "whole number"),
    "a batch of 65": ("[shape.throughput]\nbatch = 65", "1 … 64"),
    "ends that overlap": ("[shape.growth]\nmax_tokens = 63", "compares the first 32 tokens"),
    "an endless number": (f"[[limits]]\nttft_std_ms = {'9' * 5000}", "not TOML|ttft_std_ms is"),
}


@pytest.mark.parametrize(("content", "said"), BAD.values(), ids=BAD.keys())
def test_a_file_that_cannot_be_used_is_one_clear_error(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    path = tmp_path / "limits.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UsageError, match=said) as error:
        read_thresholds(path)
    assert "limits.toml" in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("path", ["missing.toml", "."], ids=["missing", "a directory"])
def test_a_file_that_is_not_there_is_one_clear_error(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_thresholds(tmp_path / path)


@settings(max_examples=200)
@given(st.text(alphabet='[]limts.shapeto_n = 0123456789"\n-', max_size=80))
def test_whatever_is_in_a_file_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(text)
    try:
        read_thresholds(path).limits(PC)
    except UsageError as error:
        assert "any.toml" in str(error)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e30])
def test_a_flag_that_cannot_be_a_limit_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="ttft_std_ms is"):
        read_thresholds().with_flags({"ttft_std_ms": value})


@pytest.mark.parametrize(
    ("only", "numbers"),
    [
        (None, [1, 2, 3, 4, 5, 6, 7]),
        ("1,4", [1, 4]),
        ("4, 1,1", [1, 4]),
        ("rope,throughput,1", [1, 5, 7]),
    ],
)
def test_indicators_are_chosen_by_number_or_name(only: str | None, numbers: list[int]) -> None:
    assert [one.number for one in chosen(only)] == numbers


@pytest.mark.parametrize("only", ["8", "0", "ttft,tpot", "", ",", "1-4", "１"])
def test_no_such_indicator_is_refused_with_the_list_of_them(only: str) -> None:
    with pytest.raises(UsageError, match=r"1 \(ttft\), 2 \(growth\)"):
        chosen(only)


@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA.keys())
def test_a_figure_at_its_limit_holds_only_where_the_sign_says_so(criterion: object) -> None:
    assert isinstance(criterion, type(INDICATORS[0].criteria[0]))
    assert criterion.holds(10.0, 10.0) == (criterion.sign in ("≤", "≥"))
    assert criterion.holds(9.0, 10.0) == (criterion.sign in ("<", "≤"))
    assert criterion.holds(11.0, 10.0) == (criterion.sign in (">", "≥"))
    assert not criterion.holds(float("nan"), 10.0)
