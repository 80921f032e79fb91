"""The JSON file of a conversation: {"format": …, "version": 1, "messages": [{"role": …}, …]}."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orin_llm.errors import OrinError
from orin_llm.host.disk import replacing
from orin_llm.text.template import Message

FORMAT = "orin-llm conversation"
VERSION = 1
ROLES = ("system", "developer", "user", "assistant", "tool")
MAX_FILE_BYTES = 1 << 28


class ConversationFileError(OrinError):
    """A file that cannot be read as, or written with, a conversation. Names the file."""


def write_messages(path: Path, messages: Sequence[Message]) -> None:
    """Write a new file beside the old one, then put it in its place."""
    content = {"format": FORMAT, "version": VERSION, "messages": list(messages)}
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    try:
        with replacing(path) as part:
            part.write_bytes(text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise ConversationFileError(f"{path} cannot be written: {error.strerror}") from error


def read_messages(path: Path) -> list[Message]:
    """Read and check a file that write_messages wrote."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise _wrong(path, f"it has {size} bytes, at most {MAX_FILE_BYTES} are read")
        content = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
    except OSError as error:
        raise ConversationFileError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _wrong(path, f"byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise _wrong(path, f"line {error.lineno} is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise _wrong(path, "it is nested too deeply") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _wrong(path, f'it has no "format": "{FORMAT}"')
    if content.get("version") != VERSION:
        raise _wrong(path, f"its version is {content.get('version')!r}, {VERSION} is understood")
    messages = content.get("messages")
    if not isinstance(messages, list):
        raise _wrong(path, '"messages" is missing or no list')
    return [_checked(path, place, message) for place, message in enumerate(messages)]


def _checked(path: Path, place: int, message: Any) -> Message:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise _wrong(path, f"message {place} has no role out of {', '.join(ROLES)}")
    if not isinstance(message.get("content", ""), (str, list, type(None))):
        raise _wrong(path, f"the content of message {place} is neither a text nor a list")
    return message


def _wrong(path: Path, reason: str) -> ConversationFileError:
    return ConversationFileError(f"{path} is no conversation of orin-llm: {reason}")
