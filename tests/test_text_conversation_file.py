"""Saved conversations: loaded as they were, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from text_support import asked, contents

from orin_llm.text.conversation_file import ConversationFileError


def test_a_saved_conversation_is_loaded_as_it_was(tmp_path: Path) -> None:
    chat = asked(("é🙂\n\x00", "<|im_end|>"), ("2", "two"), system="s")
    chat.add({"role": "tool", "content": None, "name": "f", "x": [1, {"a": 2.5}]})
    path = tmp_path / "chat.json"
    path.write_text("old")
    chat.save(path)
    other = asked(("other", "x"))
    other.load(path)
    assert other.messages == chat.messages
    assert [entry.name for entry in tmp_path.iterdir()] == ["chat.json"]


WRONG_FILES = {
    "not json": (b"hello", "line 1 is not JSON"),
    "not utf-8": (b'{"format": "\xe9"}', "byte 12 is not UTF-8"),
    "other json": (b'{"messages": []}', 'no "format"'),
    "a list": (b"[]", 'no "format"'),
    "newer": (b'{"format": "orin-llm conversation", "version": 2}', "version is 2"),
    "no messages": (b'{"format": "orin-llm conversation", "version": 1}', '"messages" is missing'),
    "no role": (
        b'{"format": "orin-llm conversation", "version": 1, "messages": [{"content": "x"}]}',
        "message 0 has no role",
    ),
    "odd content": (
        b'{"format": "orin-llm conversation", "version": 1,'
        b' "messages": [{"role": "user", "content": "x"}, {"role": "user", "content": 5}]}',
        "content of message 1",
    ),
    "deep": (b"[" * 100_000, "nested too deeply|not JSON"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_wrong_file_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    data, reason = WRONG_FILES[name]
    path = tmp_path / "chat.json"
    path.write_bytes(data)
    chat = asked(("1", "one"))
    with pytest.raises(ConversationFileError, match=reason) as caught:
        chat.load(path)
    assert str(path) in str(caught.value)
    assert contents(chat) == ["1", "one"]


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    chat = asked()
    with pytest.raises(ConversationFileError, match=r"chat\.json cannot be read: No such file"):
        chat.load(tmp_path / "chat.json")
    with pytest.raises(ConversationFileError, match=r"cannot be written: No such file"):
        chat.save(tmp_path / "missing" / "chat.json")
    with pytest.raises(ConversationFileError, match=r"cannot be written"):
        chat.save(tmp_path)


def test_the_file_names_its_format_and_version(tmp_path: Path) -> None:
    asked().save(tmp_path / "chat.json")
    content = json.loads((tmp_path / "chat.json").read_text("utf-8"))
    assert content == {"format": "orin-llm conversation", "version": 1, "messages": []}
