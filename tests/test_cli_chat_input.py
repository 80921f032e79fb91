"""Chat messages: where they end, what they hold, and the parameters that /set takes."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_llm.cli.chat.lines import StreamLines, is_complete, state_folder, unquoted
from orin_llm.cli.chat.settings import PARAMETERS, Settings
from orin_llm.engine.config import SamplingParams
from orin_llm.errors import OrinError, UsageError


def messages(data: bytes, encoding: str | None = None) -> list[str]:
    lines = StreamLines(io.BytesIO(data), encoding)
    return list(iter(lambda: lines.read(), None))


def test_each_piped_line_is_a_message() -> None:
    assert messages(b"one\r\n\ntwo words\nthree") == ["one", "", "two words", "three"]
    assert messages(b"") == []


def test_triple_quotes_hold_several_lines_together() -> None:
    assert messages(b'"""one\ntwo\n"""\nthree\n') == ['"""one\ntwo\n"""', "three"]
    assert messages(b'/system """be\nbrief"""\nthree\n') == ['/system """be\nbrief"""', "three"]
    assert unquoted('"""one\ntwo\n"""') == "one\ntwo"


def test_quotes_inside_a_message_do_not_hold_it_open() -> None:
    assert is_complete('def f(): """A docstring.')
    assert not is_complete('"""')
    assert not is_complete('"""one\ntwo')
    assert is_complete('""""""')
    assert unquoted('say """this"""') == 'say """this"""'


def test_an_unclosed_message_ends_with_the_input() -> None:
    assert messages(b'"""one\ntwo') == ['"""one\ntwo']


def test_a_bad_line_is_refused_and_the_next_one_read() -> None:
    lines = StreamLines(io.BytesIO(b"caf\xe9\nnext\n"), None)
    with pytest.raises(
        OrinError, match="line 1 of standard input is not UTF-8: byte 0xE9 at offset 3"
    ):
        lines.read()
    assert lines.read() == "next"
    assert lines.read() is None


def test_piped_input_is_read_in_its_encoding() -> None:
    assert messages("un café\ndeux\n".encode("utf-16"), "utf-16") == ["un café", "deux"]


@given(
    st.text(
        alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="\r\n\0"), min_size=1
    )
)
def test_any_text_in_triple_quotes_comes_back_whole(text: str) -> None:
    body = f"{text}\n{text}"
    if '"""' in text or text.endswith('"') or text.startswith('"') or text.strip() != text:
        return
    (message,) = messages(f'"""\n{body}\n"""\n'.encode())
    assert unquoted(message) == body


def test_history_lies_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "orin-llm"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local/state/orin-llm"


SETTINGS = Settings(SamplingParams())


def test_parameters_are_set_by_name() -> None:
    changed = SETTINGS.with_value("temperature", "0.25").with_value("seed", "7")
    changed = changed.with_value("max_tokens", "12").with_value("stop", "'END NOW' '#'")
    assert (changed.sampling.temperature, changed.sampling.seed) == (0.25, 7)
    assert (changed.max_tokens, changed.stop) == (12, ("END NOW", "#"))
    assert changed.with_value("order", "llama").sampling.order == "llama"
    assert changed.with_value("seed", "none").sampling.seed is None
    assert changed.with_value("max_tokens", "none").max_tokens is None
    assert changed.with_value("stop", "none").stop == ()


def test_every_parameter_is_shown_as_it_is_set() -> None:
    assert list(SETTINGS.values()) == list(PARAMETERS)
    assert SETTINGS.with_value("top_k", "3").values()["top_k"] == "3"


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("temprature", "1", "unknown parameter"),
        ("temperature", "warm", "expected a number"),
        ("temperature", "-1", "temperature"),
        ("temperature", "nan", "temperature"),
        ("top_k", "1.5", "expected a whole number"),
        ("top_k", "none", "expected a whole number"),
        ("seed", "x", "expected a whole number or none"),
        ("max_tokens", "0", "max_tokens"),
        ("stop", "'open", "cannot read"),
        ("stop", "''", "empty"),
    ],
)
def test_a_bad_parameter_is_a_usage_error(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SETTINGS.with_value(name, text)


@given(st.sampled_from([*PARAMETERS, "x"]), st.text(max_size=20))
def test_no_text_breaks_set(name: str, text: str) -> None:
    with contextlib.suppress(UsageError):
        SETTINGS.with_value(name, text)
