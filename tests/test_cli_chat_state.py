"""The state beside a saved conversation: what it saves, and what goes on without it."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chat_support import Chatter, prompts

from orin_llm.cli.chat.saved import load_beside, save_beside, state_path, take_up
from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
from orin_llm.text.conversation import Conversation
from orin_llm.text.model_template import model_template
from orin_llm.text.template import ChatTemplate

QUESTION = "Tell me about the sea, the wind and the rain, please."


@pytest.fixture
def chat(smollm2: Path, tmp_path: Path) -> Chatter:
    return Chatter(smollm2, tmp_path)


@pytest.fixture
def forgetful(engine: Engine) -> Iterator[Engine]:
    """The shared engine with an empty cache."""
    engine.forget()
    yield engine
    engine.forget()


def conversation_of(engine: Engine) -> Conversation:
    return Conversation(engine, model_template(engine, pytest.fail))


def ask(engine: Engine, conversation: Conversation, text: str, n: int = 4) -> tuple[list[int], int]:
    """Add a turn; its tokens with the answer's, and how many were cached."""
    conversation.add_user(text)
    prompt = conversation.prompt(engine.n_ctx)
    completion = engine.complete(Request(prompt.tokens, SamplingParams(temperature=0), n))
    list(completion)
    result = completion.result
    conversation.add_answer(result.text, result.token_ids)
    return [*prompt.tokens, *result.token_ids], result.cached_tokens


def test_a_saved_conversation_goes_on_without_computing_it_again(chat: Chatter) -> None:
    code, out, err = chat(QUESTION, "/save sea.json", "And the wind?")
    assert code == 0
    (size,) = re.findall(r"^its state is in sea.json.kv: (\d+) tokens, \d+\.\d [kM]B$", err, re.M)
    first = prompts(err)[0][0]
    n_saved = (first + 6 - 1) // 16 * 16  # the last token of the answer was never computed
    assert int(size) == n_saved > first  # with a part of the answer
    code, again, err = chat("/load sea.json", "And the wind?")
    assert code == 0
    assert "loaded 1 turns from sea.json\nits state is in the KV cache: " in err
    assert prompts(err)[0][1] == n_saved
    assert out.endswith(again) and again.strip()


def test_a_state_that_is_not_there_or_cannot_be_used_is_a_note_and_no_failure(
    chat: Chatter,
) -> None:
    chat(QUESTION, "/save sea.json")
    code, _, err = chat("/load sea.json", "And?", flags=("--kv-type", "q8_0"))
    assert code == 0 and "its state is not used: sea.json.kv holds a KV cache of type f16" in err
    shutil.copy(chat.folder / "sea.json", chat.folder / "copy.json")
    data = bytearray((chat.folder / "sea.json.kv").read_bytes())
    data[-100] ^= 1
    (chat.folder / "sea.json.kv").write_bytes(data)
    lines = ("/load copy.json", "/load sea.json", "And?", "/save sea.json", "/load sea.json")
    code, _, err = chat(*lines)
    assert code == 0
    assert "there is no state in copy.json.kv: the next message computes it again" in err
    assert "its state is not used: sea.json.kv is damaged" in err
    assert "its state is in the KV cache: " in err  # saved anew
    assert prompts(err)[0][1] == 0 and prompts(err)[0][0] > 30


def test_an_engine_without_pages_saves_and_loads_the_conversation_alone(chat: Chatter) -> None:
    chat(QUESTION, "/save sea.json")
    chat("Hello.", "/save other.json")
    flags = ("--no-prefix-cache",)
    code, _, err = chat(
        "/load sea.json", "And?", "/save sea.json", "/save! other.json", flags=flags
    )
    assert code == 0
    assert err.count("its state is not saved: ") == 2 and "--no-prefix-cache" in err
    assert len(json.loads((chat.folder / "other.json").read_text())["messages"]) == 4
    assert (chat.folder / "sea.json.kv").exists()  # the beginning of what is saved there now
    assert not (chat.folder / "other.json.kv").exists()  # was of another conversation


def test_a_conversation_that_nothing_was_computed_for_has_no_state_and_no_note(
    chat: Chatter,
) -> None:
    code, _, err = chat(
        *("/system Be brief.", "/save brief.json", "/load brief.json", QUESTION),
        *("/system Be kind.", "/save! brief.json", QUESTION, "/clear", "/save clear.json"),
    )
    assert code == 0 and err.count("saved to") == 3
    assert "state" not in err
    assert {path.name for path in chat.folder.glob("*.json*")} == {"brief.json", "clear.json"}


@pytest.mark.parametrize("kind", ["file", "folder", "pipe", "dangling link"])
def test_a_file_that_is_no_state_is_not_replaced(
    forgetful: Engine, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "sea.json"
    state = state_path(path)
    if kind == "file":
        state.write_text("mine")
    elif kind == "folder":
        state.mkdir()
    elif kind == "pipe":
        os.mkfifo(state)
    else:
        state.symlink_to(tmp_path / "absent")
    before = (state.lstat().st_ino, state.lstat().st_mtime_ns)
    tokens, _ = ask(forgetful, conversation_of(forgetful), QUESTION)
    told = save_beside(forgetful, tokens, path, is_own=True)
    assert told.startswith(f"its state is not saved: {state} ")
    assert (state.lstat().st_ino, state.lstat().st_mtime_ns) == before


def test_a_disk_that_takes_no_more_costs_the_state_alone(forgetful: Engine, tmp_path: Path) -> None:
    path = tmp_path / "sea.json"
    tokens, _ = ask(forgetful, conversation_of(forgetful), QUESTION)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        told = save_beside(forgetful, tokens, path, is_own=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    state = state_path(path)
    assert told == f"its state is not saved: {state} cannot be written: File too large"
    assert list(tmp_path.iterdir()) == []


def test_answers_stay_the_tokens_they_were_generated_as(forgetful: Engine, tmp_path: Path) -> None:
    """Also those that their text would not be split into."""
    conversation = conversation_of(forgetful)
    for text, answer in (("One?", "wonderful"), ("Two?", "marvellous weather"), ("Three?", "yes")):
        conversation.add_user(text)
        prompt = conversation.prompt(2048).tokens
        letters = [
            token for char in answer for token in forgetful.tokenize(char, add_special=False)
        ]
        conversation.add_answer(answer, letters)
    tokens, messages = (*prompt, *letters), conversation.messages
    restored = take_up(conversation_of(forgetful), messages, tokens)
    anew = take_up(conversation_of(forgetful), messages, ())
    assert restored.messages == anew.messages == messages
    for each in (conversation, restored, anew):
        each.add_user("Four?")
    expected = conversation.prompt(2048).tokens
    assert restored.prompt(2048).tokens == expected
    assert len(anew.prompt(2048).tokens) < len(expected)
    # As far as tokens are known: whole pages do not reach to the end.
    for n_tokens in (len(prompt) - 1, len(prompt) - 9, 3):
        partly = take_up(conversation_of(forgetful), messages, tokens[:n_tokens])
        partly.add_user("Four?")
        again = partly.prompt(2048).tokens
        assert forgetful.detokenize(again, special=True) == forgetful.detokenize(
            expected, special=True
        )
        n_turns = len(prompt) - 9  # the second answer's end
        assert n_tokens < n_turns or again[:n_turns] == expected[:n_turns]


def test_a_loaded_chat_knows_the_tokens_of_its_state(
    forgetful: Engine, chat: Chatter, tmp_path: Path
) -> None:
    conversation = conversation_of(forgetful)
    conversation.add_user("One word?")
    prompt = conversation.prompt(2048).tokens
    answer = "unbelievably extraordinary weather"
    letters = [forgetful.tokenize(char, add_special=False)[0] for char in answer]
    conversation.add_answer(answer, letters)
    list(forgetful.complete(Request([*prompt, *letters], max_tokens=1)))
    conversation.save(tmp_path / "letters.json")
    save_beside(forgetful, [*prompt, *letters], tmp_path / "letters.json", is_own=False)
    _, _, err = chat("/load letters.json", "Another?")
    assert prompts(err)[0][1] == len([*prompt, *letters]) // 16 * 16


def test_a_template_that_refuses_leaves_the_messages_as_they_are(forgetful: Engine) -> None:
    template = ChatTemplate("{{ raise_exception('not like this') }}", bos_token="", eos_token="")
    conversation = conversation_of(forgetful)
    tokens, _ = ask(forgetful, conversation, QUESTION)
    restored = take_up(Conversation(forgetful, template), conversation.messages, tokens)
    assert restored.messages == conversation.messages


def test_what_a_state_does_not_belong_to_is_taken_up_all_the_same(forgetful: Engine) -> None:
    conversation = conversation_of(forgetful)
    tokens, _ = ask(forgetful, conversation, QUESTION)
    tool_call = {"role": "assistant", "content": "", "tool_calls": []}
    for messages in (
        [*conversation.messages[:-1], {**conversation.messages[-1], "name": "sea"}],
        [{"role": "user", "content": "Something else?"}, *conversation.messages[1:]],
        [*conversation.messages, {"role": "user", "content": "Go on."}, tool_call],
        [{"role": "assistant", "content": "I begin."}],
        [{"role": "assistant", "content": None}],
        [],
    ):
        assert list(take_up(conversation_of(forgetful), messages, tokens).messages) == messages


def test_what_was_loaded_is_said_and_also_that_there_was_no_room(
    tiny_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sea.json"
    config = EngineConfig(n_ctx=256, threads=1, page_size=8, kv_memory=256)
    tokens = tuple(range(10, 250))
    with Engine(tiny_model, config) as engine:
        list(engine.complete(Request(tokens, max_tokens=1)))
        told = save_beside(engine, tokens, path, is_own=False)
        assert told.startswith(f"its state is in {state_path(path)}: 240 tokens, ")
        engine.forget()
        assert load_beside(engine, path) == (tokens, "its state is in the KV cache: 240 tokens")
        engine.forget()
        running = engine.complete(Request(tokens[90::-1], max_tokens=150, ignore_eos=True))
        next(running)
        nothing, told = load_beside(engine, path)
        assert nothing == () and "the KV cache has no room for it now" in told
    with Engine(tiny_model, replace(config, prefix_cache=False)) as engine:
        assert "--no-prefix-cache" in save_beside(engine, tokens, path, is_own=True)
        assert save_beside(engine, (), path, is_own=True) == ""
