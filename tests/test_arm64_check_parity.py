"""The check of the Arm build: what its tests and its texts have to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arm64_check.greedy import JUDGED, PEERS, TIE, compare, judged
from arm64_check.parity import PARITY, read_report
from arm64_check.steps import CheckFailed

ROOT = Path(__file__).resolve().parents[1]
TABLE = {"RoPE": ("test_rope_table", "test_rope_session::test_a_row")}


def report(path: Path, *cases: tuple[str, str]) -> Path:
    """What pytest writes: files and what became of a test of each."""
    lines = [
        f'<testcase classname="tests.{file}" name="test_{n}">{outcome}</testcase>'
        for n, (file, outcome) in enumerate(cases)
    ]
    path.write_text(f"<testsuites><testsuite>{''.join(lines)}</testsuite></testsuites>")
    return path


def test_every_file_and_test_of_the_table_is_there() -> None:
    for entry in sum(PARITY.values(), ()):
        file, _, test = entry.partition("::")
        assert f"def {test or 'test_'}" in (ROOT / f"tests/{file}.py").read_text(encoding="utf-8")


def test_tests_are_counted_by_hook_and_skipped_ones_by_reason(tmp_path: Path) -> None:
    skipped = '<skipped type="pytest.skip" message="needs a GPU"/>'
    path = report(
        tmp_path / "report.xml",
        ("test_rope_table", ""),
        ("test_rope_table", skipped),
        ("test_rope_session", ""),
    )
    assert read_report(path, TABLE) == {"RoPE": {"passed": 2, "skipped": {"needs a GPU": 1}}}


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ("<failure/>", r"1 tests failed.*\n  test_rope_session\.py::test_1"),
        ("<error/>", r"1 tests failed.*\n  test_rope_session\.py::test_1"),
        ('<skipped message="needs a GPU"/>', "no test of these files has run: test_rope_session"),
    ],
)
def test_a_failure_and_a_file_without_a_test_that_ran_fail(
    tmp_path: Path, outcome: str, says: str
) -> None:
    path = report(tmp_path / "report.xml", ("test_rope_table", ""), ("test_rope_session", outcome))
    with pytest.raises(CheckFailed, match=says):
        read_report(path, TABLE)


def text(ids: list[int], gap: float = 1.0, logprob: float = -0.5) -> dict[str, Any]:
    return {"ids": ids, "logprobs": [[logprob, logprob - gap]] * len(ids)}


def test_texts_are_compared_up_to_where_they_part() -> None:
    here = [text([1, 2, 3]), text([1, 2, 3])]
    there = [text([1, 2, 3], logprob=-0.6), text([1, 9, 3], gap=0.25, logprob=-0.7)]
    assert compare(here, there) == {
        "texts": 2,
        "tokens": 3,
        "differences": [{"prompt": 1, "place": 1, "gap": 0.25}],
        "logprobs_moved": 0.2,
    }


@pytest.mark.parametrize(
    ("place", "gap", "passes"),
    [(3, TIE, True), (3, 2 * TIE, False), (JUDGED, 1.0, True), (JUDGED - 1, 1.0, False)],
)
@pytest.mark.parametrize("peer", PEERS)
def test_early_tokens_differ_at_ties_only(peer: str, place: int, gap: float, passes: bool) -> None:
    difference = {"prompt": 0, "place": place, "gap": gap}
    texts = {name: {"differences": [difference] if name == peer else []} for name in PEERS}
    if passes:
        assert judged({"F32": texts}) == {"F32": texts}
    else:
        with pytest.raises(CheckFailed, match=f"F32, {peer}: text 0 differs at token {place}"):
            judged({"F32": texts})
