"""Records in JSONL: one JSON object a line, as data sets for training and for chats are kept.

The text of a record is, by the keys it has,
- `text`: that;
- `messages`: the contents of all messages, in order;
- `prompt` and `response`: both.

Parts are separated by a blank line. No chat template is put around them: the text is the same for
every model, and statistics over it can be compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orin_llm.errors import OrinError
from orin_llm.text.text_input import read_text_file

_EXPECTED = 'expected "text", "messages", or "prompt" and "response"'


def read_records(path: Path) -> list[str]:
    """The text of each record; lines that are empty are none.

    Raises:
        OrinError: the file cannot be read or is not UTF-8, or a line is no such record.
    """
    lines = read_text_file(path, purpose="one text").split("\n")
    return [
        _record_text(line, f"{path}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def _record_text(line: str, where: str) -> str:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise OrinError(f"{where} is not JSON: {error.msg} at column {error.colno}") from None
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        raise OrinError(f"{where} is not JSON that can be read") from None
    if not isinstance(record, dict):
        raise OrinError(f"{where} is no JSON object: {_EXPECTED}")
    text = "\n\n".join(part for part in _parts(record, where) if part)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise OrinError(f"{where} holds half of a surrogate pair, which is no text") from None
    return text


def _parts(record: dict[str, Any], where: str) -> list[str]:
    if "text" in record:
        return [_string(record["text"], '"text"', where)]
    if "messages" in record:
        messages = record["messages"]
        if not isinstance(messages, list):
            raise OrinError(f'{where}: "messages" is no list')
        return [_content(message, where) for message in messages]
    if "prompt" in record and "response" in record:
        return [_string(record[key], f'"{key}"', where) for key in ("prompt", "response")]
    raise OrinError(f"{where} has none of the keys that are read: {_EXPECTED}")


def _content(message: Any, where: str) -> str:
    """What a message says: a string, or a list of parts of which those of text count."""
    if not isinstance(message, dict):
        raise OrinError(f'{where}: an entry of "messages" is no object')
    content = message.get("content")
    if content is None:  # an assistant's message may be calls of tools alone
        return ""
    if not isinstance(content, list):
        return _string(content, 'the "content" of a message', where)
    texts = [part.get("text") for part in content if isinstance(part, dict) and "text" in part]
    return "\n".join(_string(text, 'a "text" of a message', where) for text in texts)


def _string(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise OrinError(f"{where}: {name} is no string")
    return value
