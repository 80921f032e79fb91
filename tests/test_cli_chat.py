"""`orin-llm chat` over pipes: each line is a turn, whatever went wrong before it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from chat_support import Chatter, prompts
from processes import CLI, interrupt, read_some, start

from orin_llm.cli.chat.commands import COMMANDS


@pytest.fixture
def chat(smollm2: Path, tmp_path: Path) -> Chatter:
    return Chatter(smollm2, tmp_path)


def test_lines_are_turns_and_the_second_computes_only_what_is_new(chat: Chatter) -> None:
    code, out, err = chat("Hello.", "", "And you?")
    assert code == 0
    assert len(out.splitlines()) >= 2 and ">>>" not in out
    (first, none_cached), (second, cached) = prompts(err)
    assert none_cached == 0
    # All of turn one is there in whole pages, but the last token drawn was never computed.
    assert second > cached >= (first + 6 - 1) // 16 * 16


def test_an_unknown_command_is_hinted_and_the_chat_goes_on(chat: Chatter) -> None:
    code, out, err = chat("/hepl", "/usr/bin is a folder", "Hello.")
    assert code == 2  # a script learns of its first failure
    assert "unknown command /hepl: did you mean /help?" in err
    assert "unknown command /usr/bin" in err
    assert len(prompts(err)) == 1 and out.strip()


@pytest.mark.parametrize(
    "line, message",
    [
        ("/set", None),
        ("/set temp 0.5", None),
        ("/set temperature", "needs a value"),
        ("/set temperature hot", "expected a number"),
        ("/set color red", "unknown parameter"),
        ("/set order sideways", "expected orin or llama"),
        ("/show colors", "expected one of info, parameters, system, template"),
        ("/regen", "nothing to answer again"),
        ("/save", "expected a file name"),
        ("/save two words", "expected one file name"),
        ("/load absent.json", "absent.json"),
        ("/read absent.txt", "absent.txt"),
        ("/read", "expected a file name"),
        ("/read . what is this?", "is a directory"),
        ("/model no-such-model", "no-such-model"),
        ("/model /etc/passwd", "/etc/passwd"),
    ],
)
def test_a_bad_command_is_told_and_the_chat_goes_on(
    chat: Chatter, line: str, message: str | None
) -> None:
    code, out, err = chat(line, "/show system")
    assert (code != 0) == (message is not None)
    if message:
        assert err.startswith("error: ") and message in err
    assert "Traceback" not in err
    assert "(no system prompt)" in out


def test_help_lists_every_command(chat: Chatter) -> None:
    _, out, _ = chat("/help")
    assert all(name in out for name in COMMANDS)


def test_parameters_change_the_next_answer(chat: Chatter) -> None:
    _, out, err = chat("/set max_tokens 2", "/set parameter top_k 3", "/show parameters", "Hello.")
    assert re.search(r"^top_k +3 *$", out, re.MULTILINE)
    assert re.search(r"^max_tokens +2 *$", out, re.MULTILINE)
    assert "answer 2 tokens" in err


def test_the_system_prompt_can_be_set_shown_and_removed(chat: Chatter) -> None:
    _, out, err = chat(
        "Hello.",
        '/system """Be\nbrief."""',
        "/show system",
        "/clear",
        "Hello.",
        "/system none",
        "/system",
        flags=("--system", "You answer in the voice of a very patient old teacher."),
    )
    assert "Be\nbrief.\n" in out and out.endswith("(no system prompt)\n")
    first, second = prompts(err)
    assert second[0] < first[0]


def test_clear_forgets_the_turns(chat: Chatter) -> None:
    _, _, err = chat("Hello.", "/clear", "Hello.")
    first, second = prompts(err)
    assert first[0] == second[0]


def test_regen_answers_the_last_message_anew(chat: Chatter) -> None:
    _, out, err = chat("Tell a story.", "/regen", "/regen", "/show info")
    first, second, third = prompts(err)
    assert first[0] == second[0] == third[0]
    answers = out.splitlines()
    assert answers[0] == answers[1]  # greedy: the same answer
    assert re.search(r"^turns +1 *$", out, re.MULTILINE)
    _, out, _ = chat(
        "Tell a story.", "/regen", flags=("--temp", "2", "--seed", "1", "--min-p", "0", "-n", "12")
    )
    first_text, second_text = out[: len(out) // 2], out[len(out) // 2 :]
    assert first_text != second_text  # a fixed seed is counted up


def test_a_conversation_is_saved_and_taken_up_again(chat: Chatter) -> None:
    code, first, err = chat("/system Be brief.", "Hello.", '/save "my chat.json"')
    assert code == 0
    saved = json.loads((chat.folder / "my chat.json").read_text())
    assert [message["role"] for message in saved["messages"]] == ["system", "user", "assistant"]
    assert saved["messages"][2]["content"] == first.rstrip("\n")
    code, out, err = chat("/load 'my chat.json'", "/show system", "And you?")
    assert code == 0 and out.startswith("Be brief.\n")
    assert "loaded 1 turns" in err
    assert prompts(err)[0][0] > 30


def test_save_replaces_no_other_kind_of_file(chat: Chatter) -> None:
    (chat.folder / "notes.txt").write_text("mine")
    code, _, err = chat("/save notes.txt", "/save! notes.txt")
    assert code == 2 and err.count("notes.txt exists and is no saved conversation") == 2
    assert (chat.folder / "notes.txt").read_text() == "mine"


def test_save_replaces_another_conversation_only_when_told_to(chat: Chatter) -> None:
    def saved() -> str:
        return (chat.folder / "a.json").read_text()

    code, _, err = chat("/system One.", "/save a.json", "/system Two.", "/save ./a.json")
    assert code == 0 and err.count("saved to a.json") == 2 and "Two." in saved()
    code, _, err = chat("/system Three.", "/save a.json")
    assert code == 2 and "a.json exists and holds another conversation" in err and "Two." in saved()
    code, _, _ = chat("/load a.json", "/system Four.", "/save a.json")
    assert code == 0 and "Four." in saved()
    code, _, err = chat("/load a.json", "/clear", "/system Five.", "/save a.json")
    assert code == 2 and "Four." in saved()
    code, _, _ = chat("/system Six.", "/save! a.json")
    assert code == 0 and "Six." in saved()


def test_a_file_is_read_with_a_question_or_before_the_next_message(chat: Chatter) -> None:
    (chat.folder / "facts.txt").write_text("The sky is green. " * 5)
    code, _, err = chat(
        "/read facts.txt What colour is the sky?", "/clear", "/read facts.txt", "Why?"
    )
    assert code == 0
    assert "facts.txt (90 characters) goes with your next message" in err
    asked, attached = prompts(err)
    assert asked[0] > 50 and attached[0] > 45


def test_a_file_in_another_encoding_is_read_as_the_error_says(chat: Chatter) -> None:
    (chat.folder / "menu.txt").write_bytes("Café, très bon. Déjà vu, garçon !".encode("cp1252"))
    code, _, err = chat(
        "/read menu.txt",
        "/read menu.txt --encoding cp1252",
        "/read --encoding=cp1252 menu.txt",
        "/read menu.txt --encoding cp1252 What is this?",
        "/read menu.txt --encoding",
    )
    assert code == 1 and "read it with --encoding cp1252\n" in err
    assert err.count("menu.txt (33 characters) goes with your next message") == 2
    assert len(prompts(err)) == 1
    assert "expected a name after --encoding" in err


def test_a_binary_file_is_not_read(chat: Chatter) -> None:
    (chat.folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    code, _, err = chat("/read photo.png", "Hello.")
    assert code == 1 and "photo.png is a PNG image" in err
    assert len(prompts(err)) == 1


def test_a_line_that_is_not_utf8_is_refused_and_the_next_answered(chat: Chatter) -> None:
    code, _, err = chat("café".encode("cp1252"), "Hello.")
    assert code == 1 and "line 1 of standard input is not UTF-8: byte 0xE9 at offset 3" in err
    assert len(prompts(err)) == 1


def test_the_oldest_turns_are_dropped_whole_when_the_context_is_full(chat: Chatter) -> None:
    words = "one two three four five six seven eight nine ten " * 4
    lines = [f"{number} {words}" for number in range(6)]
    code, _, err = chat(*lines, "/show info", flags=("-c", "256"))
    assert code == 0
    assert re.search(r"the context is full: dropped the oldest (turn|\d turns)\n", err)
    assert len(prompts(err)) == 6
    assert all(prompt <= 256 for prompt, _ in prompts(err))


def test_a_message_beyond_the_context_is_taken_back(chat: Chatter) -> None:
    code, out, err = chat("Hello.", "word " * 400, "/show info", "Hello.", flags=("-c", "256"))
    assert code == 1 and "error: the last message needs 4" in err and "--ctx-size" in err
    assert re.search(r"^turns +1 *$", out, re.MULTILINE)
    assert len(prompts(err)) == 2


def test_another_model_takes_the_conversation_up(chat: Chatter, smollm2: Path) -> None:
    (chat.folder / "copy.gguf").symlink_to(smollm2)
    code, out, err = chat("Hello.", "/model copy.gguf", "/model", "And you?", "/show info")
    assert code == 0
    assert "copy.gguf answers from here on" in err and "copy.gguf\n" in out
    (first, _), (second, cached) = prompts(err)
    assert second > first + 6 and cached == 0


def test_a_failing_model_leaves_the_old_one(chat: Chatter) -> None:
    (chat.folder / "bad.gguf").write_bytes(b"GGUF but no model" * 10)
    code, _, err = chat("Hello.", "/model bad.gguf", "And you?")
    assert code == 3
    (_, _), (_, cached) = prompts(err)
    assert cached > 30


def test_stats_sum_up_the_chat(chat: Chatter) -> None:
    _, out, _ = chat("/stats", "Hello.", "And you?", "/stats")
    assert "none yet" in out
    assert re.search(r"^answers +2 *$", out, re.MULTILINE)
    assert re.search(r"^answer tokens +12 *$", out, re.MULTILINE)


@pytest.mark.parametrize("leave", ["/exit", "/bye", "/quit"])
def test_exit_leaves_at_once(chat: Chatter, leave: str) -> None:
    code, out, err = chat(leave, "Hello.")
    assert (code, out, err) == (0, "", "")


def test_quiet_shows_answers_only(chat: Chatter) -> None:
    code, out, err = chat("Hello.", flags=("-q",))
    assert (code, err) == (0, "") and out.strip()


def test_ctrl_c_ends_a_piped_chat_with_130_and_keeps_what_was_said(chat: Chatter) -> None:
    command = [*CLI, "chat", "-n", "-1", "-c", "8192"]
    process = start(command, stdin=subprocess.PIPE, env=chat.environment)
    print("Write a very long story about the sea.", file=process.stdin, flush=True)
    first = read_some(process)
    time.sleep(0.5)
    rest, err = interrupt(process)
    assert process.returncode == 130
    assert (first + rest).endswith("\n") and "Traceback" not in err
