"""Texts to judge a model by: those that ship, the user's files, folders and records."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from orin_llm.errors import OrinError, UsageError
from orin_llm.quality import texts
from orin_llm.quality.texts import Corpus, calibration_text, evaluation_text, read_text


def test_a_file_is_its_own_text_but_for_the_newline_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\n Größe 大小\r\n\n\n".encode())
    corpus = read_text(path)
    assert corpus == Corpus(str(path), ("\n Größe 大小\r\n\n",))
    assert corpus.text == "\n Größe 大小\r\n\n"
    assert corpus.sha256 == hashlib.sha256("\n Größe 大小\r\n\n".encode()).hexdigest()


def test_a_folder_is_read_by_name_without_what_is_hidden(tmp_path: Path) -> None:
    for name in ("b.md", "a/z.txt", "a/.notes", ".git/config", "c.jsonl", "empty.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text({"c.jsonl": '{"text": "record"}\n', "empty.txt": " \n"}.get(name, name))
    assert read_text(tmp_path).text == "a/z.txt\n\nb.md\n\nrecord"


def test_records_are_texts_messages_or_prompts_with_responses(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    records: list[object] = [
        {"text": "plain", "id": 1},
        {
            "messages": [
                {"role": "user", "content": "What is on it?"},
                {"role": "assistant", "content": None, "tool_calls": []},
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "x"}},
                        {"type": "text", "text": "Schau!"},
                        {"type": "text", "text": "Now."},
                    ],
                },
            ]
        },
        {"prompt": "2 + 2", "response": "4"},
        {"text": ""},
    ]
    lines = [json.dumps(record) for record in records]
    path.write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\n")
    assert read_text(path).documents == ("plain", "What is on it?\n\nSchau!\nNow.", "2 + 2\n\n4")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": ', "line 2 is not JSON: "),
        ("[" * 100_000, "line 2 is not JSON"),
        ("1" * 5000, "line 2 is not JSON"),
        ('["text"]', "line 2 is no JSON object"),
        ('{"prompt": "a"}', "line 2 has none of the keys"),
        ('{"text": 3}', 'line 2: "text" is no string'),
        ('{"messages": {}}', 'line 2: "messages" is no list'),
        ('{"messages": ["a"]}', 'line 2: an entry of "messages" is no object'),
        ('{"messages": [{"content": 1}]}', 'line 2: the "content" of a message is no string'),
        ('{"messages": [{"content": [{"text": 1}]}]}', 'line 2: a "text" of a message'),
        ('{"prompt": "a", "response": null}', 'line 2: "response" is no string'),
        ('{"text": "\\ud800"}', "line 2 holds half of a surrogate pair"),
    ],
)
def test_a_damaged_record_is_named_by_its_line(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"text": "good"}\n' + line + "\n")
    with pytest.raises(OrinError) as caught:
        read_text(path)
    assert f"{path}, {problem}" in str(caught.value)


def test_what_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OrinError, match=r"cannot read .*missing: No such file"):
        read_text(tmp_path / "missing")
    with pytest.raises(OrinError, match="is a folder without files"):
        read_text(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"fine")
    (tmp_path / "b.bin").write_bytes(b"\x00\x01\x02")
    with pytest.raises(OrinError, match=r"b\.bin is a binary file"):
        read_text(tmp_path)
    (tmp_path / "b.bin").write_bytes("Grüße aus Köln".encode("cp1252"))
    with pytest.raises(OrinError, match=r"b\.bin is not UTF-8: .* --encoding cp1252"):
        read_text(tmp_path)
    with pytest.raises(UsageError, match="unknown encoding 'runes'"):
        read_text(tmp_path, "runes")


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine")
    os.mkfifo(tmp_path / "b")
    with pytest.raises(OrinError, match="b is no ordinary file"):
        read_text(tmp_path)


def test_an_encoding_is_for_texts_and_not_for_records(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Grüße".encode("cp1252"))
    (tmp_path / "b.jsonl").write_bytes('{"text": "Grüße"}'.encode())
    assert read_text(tmp_path, "cp1252").text == "Grüße\n\nGrüße"


@pytest.mark.parametrize("content", ["", " \n\t\n"])
def test_white_space_alone_is_no_text(tmp_path: Path, content: str) -> None:
    path = tmp_path / "blank.txt"
    path.write_text(content)
    with pytest.raises(OrinError, match=r"blank\.txt holds no text"):
        read_text(path)


def test_text_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MAX_TEXT_BYTES", 10)
    (tmp_path / "a").write_text("12345")
    (tmp_path / "b").write_text("67890\n")
    assert read_text(tmp_path).text == "12345\n\n67890"
    (tmp_path / "c").write_text("1")
    with pytest.raises(OrinError, match="holds more than 0 MiB"):
        read_text(tmp_path)
    with pytest.raises(OrinError, match="longer than 64 MiB: too long for one text"):
        read_text(Path("/dev/zero"))


def test_the_texts_that_ship_are_there_and_share_no_paragraph() -> None:
    calibration, evaluation = calibration_text(), evaluation_text()
    assert (calibration.name, evaluation.name) == ("calibration", "evaluation")
    lines = [
        {line.strip() for line in corpus.text.splitlines() if len(line.strip()) > 40}
        for corpus in (calibration, evaluation)
    ]
    assert min(map(len, lines)) > 2
    assert not lines[0] & lines[1]
