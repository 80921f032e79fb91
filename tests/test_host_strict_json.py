"""JSON that every reader takes."""

import json
import math

import pytest

from orin_llm.host.strict_json import strict_json


def refuse(name: str) -> None:
    raise AssertionError(name)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_word_for_is_left_out_at_any_depth(odd: float) -> None:
    text = strict_json({"ppl": odd, "windows": [{"nll": 1.5, "ppl": odd}, odd], "n": 2})
    assert json.loads(text, parse_constant=refuse) == {"windows": [{"nll": 1.5}], "n": 2}


def test_other_values_stay_as_they_are() -> None:
    value = {"text": "é", "list": [1, None, True, 0.1], "nested": {"empty": {}}}
    assert json.loads(strict_json(value, indent=2)) == value
