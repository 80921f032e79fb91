"""A check as JUnit XML, which continuous integration reads: a test case for each indicator."""

from __future__ import annotations

import re
from xml.etree import ElementTree as xml

from orin_llm.accept.outcome import Outcome
from orin_llm.accept.result import Acceptance
from orin_llm.accept.texts import beside_text, limit_text, machine_text, value_text

# What XML 1.0 has no form for.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(acceptance: Acceptance) -> str:
    """One `testsuite` in `testsuites`.

    What failed is a `failure`. What could not be measured or judged is an `error`, or `skipped`
    where that was allowed: the file says what the exit code says.
    """
    outcomes, counts = acceptance.outcomes, acceptance.counts
    open_ones = counts["not measurable"] + counts["not judged"]
    allowed = acceptance.exit_code == 0
    numbers = {
        "tests": len(outcomes),
        "failures": counts["failed"],
        "errors": 0 if allowed else open_ones,
        "skipped": open_ones if allowed else 0,
    }
    totals = {name: str(number) for name, number in numbers.items()}
    seconds = sum(outcome.elapsed_ms for outcome in outcomes) / 1e3
    suites = xml.Element("testsuites", {"name": "orin-llm accept", "time": f"{seconds:.3f}"})
    suite = xml.SubElement(
        suites, "testsuite", {"name": "orin-llm accept", "time": f"{seconds:.3f}", **totals}
    )
    model = acceptance.environment["model"]
    properties = {
        "version": acceptance.environment["version"],
        "commit": acceptance.environment["commit"] or "",
        "model": f"{model['name']} {model['quant']}",
        "machine": machine_text(acceptance.environment),
    }
    listed = xml.SubElement(suite, "properties")
    for name, value in properties.items():
        xml.SubElement(listed, "property", {"name": name, "value": _clean(value)})
    for outcome in outcomes:
        _add_case(suite, outcome, allowed=allowed)
    xml.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{xml.tostring(suites, "unicode")}\n'


def _add_case(suite: xml.Element, outcome: Outcome, *, allowed: bool) -> None:
    one = outcome.indicator
    case = xml.SubElement(
        suite,
        "testcase",
        {
            "classname": "orin-llm.accept",
            "name": f"{one.number} {one.name}: {one.title}",
            "time": f"{outcome.elapsed_ms / 1e3:.3f}",
        },
    )
    text = _clean(_text(outcome))
    if outcome.status != "passed":
        kind = "failure" if outcome.status == "failed" else "skipped" if allowed else "error"
        told = xml.SubElement(case, kind, {"message": text.split("\n")[0]})
        if kind != "skipped":
            told.set("type", outcome.status)
    xml.SubElement(case, "system-out").text = text


def _text(outcome: Outcome) -> str:
    figures = "; ".join(
        f"{judgement.criterion.title} {value_text(judgement)} (limit {limit_text(judgement)})"
        for judgement in outcome.judgements
    )
    lines = [": ".join([outcome.status, *outcome.reasons[:1]]), *outcome.reasons[1:]]
    if not outcome.reasons:
        lines = [f"{outcome.status}: {figures}"]
    return "\n".join([*lines, figures, outcome.shape, beside_text(outcome)])


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
