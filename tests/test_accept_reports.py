"""Verdicts, exit codes, and the forms in which a check is reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from accept_support import GOOD, LIMITS, acceptance
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.accept.evidence import FORMATS, Evidence
from orin_llm.accept.indicators import CRITERIA, INDICATORS
from orin_llm.accept.junit import to_junit
from orin_llm.accept.result import Acceptance
from orin_llm.accept.texts import value_text, verdict
from orin_llm.errors import UsageError

BAD = {
    "ttft_std_ms": 15.0,
    "tpot_growth_ms": 5.0,
    "prefill_gpu_percent": 85.0,
    "memory_percent": 90.0,
    "hit_rate_percent": 99.1999,
    "rope_out_of_bounds": 1.0,
    "ppl_ratio": 1.2001,
    "requests_per_s": 21.9,
}


def statuses(found: Acceptance) -> list[str]:
    return [outcome.status for outcome in found.outcomes]


def test_a_check_whose_figures_are_all_within_their_limits_is_accepted() -> None:
    found = acceptance()
    assert (statuses(found), found.accepted, found.exit_code) == (["passed"] * 7, True, 0)


@pytest.mark.parametrize("name", CRITERIA)
def test_any_single_figure_that_is_not_within_its_limit_fails_the_check(name: str) -> None:
    found = acceptance({**GOOD, name: BAD[name]})
    assert statuses(found).count("failed") == 1
    assert (found.accepted, found.exit_code) == (False, 1)


@pytest.mark.parametrize("name", CRITERIA)
def test_what_could_not_be_measured_is_never_passed(name: str) -> None:
    found = acceptance({**GOOD, name: None})
    assert statuses(found).count("not measurable") == 1
    assert (found.accepted, found.exit_code) == (False, 4)
    assert acceptance({**GOOD, name: None}, allow_unmeasured=True).exit_code == 0


@pytest.mark.parametrize("name", CRITERIA)
def test_what_has_no_limit_is_not_judged_and_never_passed(name: str) -> None:
    limits = {key: value for key, value in LIMITS.items() if key != name}
    found = acceptance(limits=limits)
    assert statuses(found).count("not judged") == 1
    assert (found.accepted, found.exit_code) == (False, 4)


def test_a_check_in_which_nothing_passed_is_not_accepted_whatever_is_allowed() -> None:
    nothing: Mapping[str, float | None] = dict.fromkeys(GOOD)
    assert acceptance(nothing, allow_unmeasured=True).exit_code == 4
    assert acceptance(limits={}, allow_unmeasured=True).exit_code == 4


def test_a_failure_is_told_before_what_is_missing_of_the_same_indicator() -> None:
    found = acceptance({**GOOD, "prefill_gpu_percent": None, "memory_percent": 95})
    assert statuses(found)[2] == "failed"


def test_what_was_interrupted_is_not_accepted() -> None:
    found = acceptance()
    ended = Acceptance(found.environment, {}, found.outcomes, interrupted=True)
    assert not ended.accepted
    assert verdict(ended).startswith("interrupted")


def test_json_has_every_figure_with_its_limit_and_where_that_is_from() -> None:
    said = json.loads(FORMATS["json"](acceptance({**GOOD, "memory_percent": None})))
    checks = {check["name"]: check for one in said["indicators"] for check in one["checks"]}
    assert [one["number"] for one in said["indicators"]] == [1, 2, 3, 4, 5, 6, 7]
    assert checks.keys() == CRITERIA.keys()
    assert checks["memory_percent"]["value"] is None
    assert checks["memory_percent"]["reason"] == "no sensor"
    assert checks["ttft_std_ms"] == {
        "name": "ttft_std_ms", "title": "standard deviation of TTFT", "status": "passed",
        "value": 3.5, "must_be": "<", "limit": 15, "limit_from": "a test", "reason": None,
    }  # fmt: skip
    assert said["accepted"] is False
    assert said["counts"] == {"passed": 6, "not_judged": 0, "not_measurable": 1, "failed": 0}
    assert said["stamp"]["module"] == "p3701-0005"


def test_the_markdown_page_says_the_verdict_and_has_a_row_for_each_figure() -> None:
    page = FORMATS["md"](acceptance({**GOOD, "ttft_std_ms": 15.00000001, "ppl_ratio": None}))
    assert page.startswith("# Acceptance: not accepted: 5 passed, 1 not measurable, 1 failed\n")
    for criterion in CRITERIA.values():
        assert f" {criterion.title} " in page
    assert "| 15.00000001 ms |" in page.replace("  ", " ")
    assert "- 6: no sensor" in page
    assert "not measured" in page
    assert "MAXN" in page


def cases(found: Acceptance) -> tuple[xml.Element, list[xml.Element]]:
    root = xml.fromstring(to_junit(found).encode())
    return root, list(root.iter("testcase"))


def test_junit_has_a_case_for_each_indicator_and_counts_what_is_in_them() -> None:
    values = {**GOOD, "ttft_std_ms": 99.0, "ppl_ratio": None}
    root, found = cases(acceptance(values))
    kinds = [[child.tag for child in case if child.tag != "system-out"] for case in found]
    assert kinds == [["failure"], [], [], [], [], ["error"], []]
    numbers = [root[0].get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert numbers == ["7", "1", "1", "0"]
    failure = found[0].find("failure")
    assert failure is not None
    assert "99 ms" in (failure.get("message") or "")


def test_junit_skips_what_was_allowed_to_be_unmeasured() -> None:
    root, found = cases(acceptance({**GOOD, "ppl_ratio": None}, allow_unmeasured=True))
    assert [child.tag for child in found[5]] == ["skipped", "system-out"]
    assert (root[0].get("errors"), root[0].get("skipped")) == ("0", "1")


@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_junit_is_xml_whatever_a_reason_says(reason: str) -> None:
    written = to_junit(acceptance({**GOOD, "ppl_ratio": None}, reason=f"{reason}<&]]>\x00\ufffe"))
    assert len(list(xml.fromstring(written.encode()).iter("testcase"))) == 7


def test_a_figure_is_written_so_that_it_can_be_told_from_its_limit() -> None:
    near = acceptance({**GOOD, "ttft_std_ms": 14.999999}).outcomes[0].judgements[0]
    assert near.status == "passed"
    assert value_text(near) == "14.999999 ms"


def test_evidence_has_what_each_indicator_was_judged_by_and_all_reports(tmp_path: Path) -> None:
    found = acceptance()
    folder = Evidence(tmp_path / "a" / "b", force=False)
    for outcome in found.outcomes:
        folder.add(outcome)
    folder.finish(found)
    names = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert names == {
        *(f"{one.number}-{one.name}.json" for one in INDICATORS),
        "accept.json",
        "accept.md",
        "accept.xml",
    }
    assert json.loads((tmp_path / "a/b/1-ttft.json").read_text())["checks"][0]["value"] == 3.5


def test_evidence_of_an_earlier_check_is_written_over_only_when_told_to(tmp_path: Path) -> None:
    (tmp_path / "6-perplexity.json").write_text("old")
    with pytest.raises(UsageError, match="not empty"):
        Evidence(tmp_path, force=False)
    assert (tmp_path / "6-perplexity.json").read_text() == "old"
    found = acceptance()
    some = Acceptance(found.environment, {}, found.outcomes[:1])
    folder = Evidence(tmp_path, force=True)
    folder.add(some.outcomes[0])
    folder.finish(some)
    assert not (tmp_path / "6-perplexity.json").exists()
    assert (tmp_path / "1-ttft.json").exists()


def test_evidence_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="no folder"):
        Evidence(tmp_path / "file", force=True)
    assert (tmp_path / "file").read_text() == "mine"
