"""The files of a conversation: its messages in NAME, and beside them its state in NAME.kv.

The state saves time and holds nothing that is not in the messages: where it cannot be written or
used, the conversation is saved and taken up all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orin_llm.engine import Engine
from orin_llm.engine.state import load_state, save_state
from orin_llm.engine.state_file import is_state_file
from orin_llm.errors import OrinError, StateFileError, UsageError
from orin_llm.host.units import size_text
from orin_llm.text.conversation import Conversation
from orin_llm.text.conversation_file import ConversationFileError, read_messages
from orin_llm.text.template import Message

_ANY_CONTEXT = 1 << 30  # tokens: nothing is dropped to fit


def state_path(path: Path) -> Path:
    """Where the state of a conversation lies."""
    return path.with_name(path.name + ".kv")


def require_replaceable(path: Path, *, replace_other: bool) -> None:
    """Refuse to save over another kind of file, and over another conversation unless told to.

    Raises:
        UsageError: that is what is at `path`.
    """
    if not path.exists():
        return
    try:
        read_messages(path)
    except ConversationFileError:
        raise UsageError(
            f"{path} exists and is no saved conversation: choose another name"
        ) from None
    if not replace_other:
        raise UsageError(
            f"{path} exists and holds another conversation: choose another name, or "
            "replace it with /save!"
        )


def save_beside(engine: Engine, tokens: Sequence[int], path: Path, *, is_own: bool) -> str:
    """Write the state of the conversation just saved at `path`; returns what to say about it.

    Args:
        tokens: of the conversation, as they were computed; those that are cached are saved.
        is_own: the conversation was there before: so was its state, which may stay.
    """
    state = state_path(path)
    try:
        if state.exists() or state.is_symlink():
            if not is_state_file(state):
                return f"its state is not saved: {state} is no saved state: choose another name"
            if not is_own:
                state.unlink()
        n_tokens = save_state(engine, tokens, state)
        n_bytes = state.stat().st_size if n_tokens else 0
    except StateFileError as error:
        return f"its state is not saved: {error}" if tokens else ""
    except OrinError as error:
        return f"its state is not saved: {error}"
    except OSError as error:
        return f"its state is not saved: {state}: {error.strerror}"
    return f"its state is in {state}: {n_tokens} tokens, {size_text(n_bytes)}" if n_tokens else ""


def load_beside(engine: Engine, path: Path) -> tuple[tuple[int, ...], str]:
    """Put the state of the conversation at `path` into the cache.

    Returns:
        The tokens that are there now, and what to say about it.
    """
    state = state_path(path)
    later = "the next message computes it again"
    if not state.exists():
        return (), f"there is no state in {state}: {later}"
    try:
        tokens = load_state(engine, state)
    except OrinError as error:
        return (), f"its state is not used: {error}; {later}"
    if not tokens:
        return (), f"its state is not used: the KV cache has no room for it now; {later}"
    return tokens, f"its state is in the KV cache: {len(tokens)} tokens"


def take_up(
    conversation: Conversation, messages: Sequence[Message], tokens: Sequence[int]
) -> Conversation:
    """Add saved messages; answers stay the tokens that the state was computed for.

    Tokenizing an answer's text again may give others, and all that follows would be lost.
    """
    for message in messages:
        if tokens and message.keys() == {"role", "content"} and message["role"] == "assistant":
            prompt = _prompt(conversation)
            if prompt and list(tokens[: len(prompt)]) == prompt:
                conversation.add_answer(str(message["content"]), tokens[len(prompt) :])
                continue
            tokens = ()  # another template or another text: nothing after it can agree
        conversation.add(message)
    return conversation


def _prompt(conversation: Conversation) -> list[int]:
    try:
        return conversation.prompt(_ANY_CONTEXT).tokens
    except OrinError:  # the template does not take it; the next message will say so
        return []
