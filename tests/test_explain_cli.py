"""`orin-llm explain` as a stranger uses it."""

from __future__ import annotations

import json
import subprocess

import pytest
from processes import CLI

from orin_llm.explain.guide import read_guide

ERROR = "error: llama.cpp failed to compute a step of 512 tokens (status -3), probably for lack of"


def explain(
    *arguments: str, stdin: bytes | None = None, closed: bool = False
) -> subprocess.CompletedProcess[str]:
    command = [*CLI, "explain", *arguments]
    if closed:
        command = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    given = stdin if stdin is not None else b""
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    return subprocess.CompletedProcess(
        command, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def test_the_best_entry_is_shown_whole_with_its_links() -> None:
    done = explain("low", "EMC")
    assert done.returncode == 0 and done.stderr == ""
    (entry,) = [e for e in read_guide() if e.name == "the-memorys-clock-is-low"]
    for text in (entry.title, entry.symptom, entry.log, entry.trace, entry.fix, *entry.links):
        assert text in done.stdout
    assert done.stdout.startswith(f"{entry.title}\n")


def test_others_that_fit_are_named_behind_it() -> None:
    done = explain("NvMapMemAllocInternalTagged: 1075072515 error 12")
    assert done.stdout.startswith("Large allocations fail on L4T 36.4.7\n")
    assert done.stdout.endswith("\nor        orin-llm explain memory-is-in-fragments\n")


def test_a_log_on_stdin_is_read_in_any_encoding_and_its_line_is_shown() -> None:
    log = b"\xff\xfe\x00 start\n" + b"x" * 100_000 + b"\n" + ERROR.encode() + b"\r\nd\xe9j\xe0 vu"
    for arguments in ((), ("-",)):
        done = explain(*arguments, stdin=log)
        assert done.returncode == 0
        assert done.stdout.splitlines()[:2] == [f"line      {ERROR}", "Out of memory after prefill"]


def test_the_list_names_every_entry() -> None:
    done = explain("--list")
    lines = done.stdout.splitlines()
    for entry in read_guide():
        assert f"  {entry.name}" in lines and entry.group in lines


def test_json_has_the_entries_and_what_they_fit() -> None:
    found = json.loads(explain("--json", stdin=f"hello\n{ERROR}\n".encode()).stdout)["entries"]
    assert found[0]["name"] == "out-of-memory-after-prefill"
    assert found[0]["line"] == ERROR and found[0]["score"] > 0
    assert set(found[0]) >= {"symptom", "log", "trace", "fix", "links", "checks", "messages"}
    listed = json.loads(explain("--list", "--json").stdout)["entries"]
    assert listed == [entry.to_json() for entry in read_guide()]


@pytest.mark.parametrize("arguments", [("banana",), ("--json", "banana"), ()])
def test_what_fits_nothing_is_an_error_that_says_where_to_look(arguments: tuple[str, ...]) -> None:
    done = explain(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: nothing in the guide fits ")
    assert "explain --list" in done.stderr and "orin-llm doctor" in done.stderr
    assert done.stdout == ("" if "--json" not in arguments else '{\n  "entries": []\n}\n')


@pytest.mark.parametrize("arguments", [("--list", "ttft"), ("",), (" ", "")])
def test_what_asks_for_nothing_or_two_things_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    done = explain(*arguments)
    assert (done.returncode, done.stdout) == (2, "")


def test_without_any_input_the_entries_are_listed() -> None:
    assert explain(closed=True).stdout == explain("--list").stdout
    done = explain("-", closed=True)
    assert done.returncode == 2 and "standard input is closed" in done.stderr


def test_a_reader_that_goes_away_ends_it_without_a_traceback() -> None:
    pipe = subprocess.run(
        ["sh", "-c", '"$@" explain --list | head -1', "sh", *CLI],
        capture_output=True,
        check=False,
    )
    assert pipe.stdout == b"First token\n"
    assert b"Traceback" not in pipe.stderr
