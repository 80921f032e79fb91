"""Symptoms in words, and errors as they are printed, lead to their entry of the fault guide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_encoder import tiny_encoder
from typer.testing import CliRunner

from orin_llm.cli.explain import said
from orin_llm.cli.main import app
from orin_llm.explain.guide import Entry, read_guide
from orin_llm.explain.search import Index
from orin_llm.explain.words import message_pattern, plain_words, stem

INDEX = Index(read_guide())


def best(text: str) -> str:
    """The name of the entry that fits best, or ""."""
    fits = INDEX.find(text.splitlines())
    return fits[0].entry.name if fits else ""


@pytest.mark.parametrize(
    "words, name",
    [
        ("TTFT jumps", "ttft-jumps"),
        ("why does the time to first token vary", "ttft-jumps"),
        ("TPOT grows with length", "tpot-grows-with-the-length"),
        ("tpot is growing with the context", "tpot-grows-with-the-length"),
        ("out of memory after prefill", "out-of-memory-after-prefill"),
        ("OOM", "out-of-memory-after-prefill"),
        ("encoding errors in input", "encoding-errors-in-the-input"),
        ("one request's TTFT tripled under load", "ttft-triples-under-load"),
        ("throttling", "speed-falls-after-some-minutes"),
        ("low EMC", "the-memorys-clock-is-low"),
        ("CPU-only build", "the-build-is-for-the-cpu-only"),
        ("L4T 36.4.7", "large-allocations-fail-on-l4t-3647"),
        ("30 W mode", "half-of-the-gpu-is-off"),
        ("cannot reproduce published numbers", "results-cannot-be-repeated"),
        ("GR3D oscillates", "the-gpus-load-swings"),
        ("gibberish on Jetson", "output-is-wrong-on-the-integrated-gpu-only"),
        ("EMC 0 %", "the-memorys-load-is-missing"),
        ("ollama uses the CPU", "another-runtime-does-not-use-the-gpu"),
        ("page hit rate is low", "the-prefix-is-not-found-again"),
        ("jtop version mismatch", "jetson-stats-does-not-answer"),
        ("slow build", "the-build-takes-very-long"),
        ("fragmentation", "memory-is-in-fragments"),
        ("troughput is flat", "more-streams-bring-no-more"),  # misspelt
        ("preemtion", "answers-are-preempted"),
        ("docker no gpu", "the-gpu-is-not-found"),
        ("GPU utilization is low", "the-gpus-load-swings"),
        ("Segmentation fault (core dumped)", "the-program-crashes"),
        ("chat hangs", "a-command-hangs"),
        ("only 4 TPCs are on", "half-of-the-gpu-is-off"),
        ("libcudart.so.12 not found", "the-module-does-not-load"),
        ("chat gets slow after many turns", "tpot-grows-with-the-length"),
        ("settings lost after a reboot", "the-mode-is-set-and-nothing-changes"),
    ],
)
def test_a_symptom_in_words_is_found(words: str, name: str) -> None:
    assert best(words) == name


@pytest.mark.parametrize(
    "printed, name",
    [
        (
            "NvMapMemAllocInternalTagged: 1075072515 error 12",
            "large-allocations-fail-on-l4t-3647",
        ),
        (
            "ggml_cuda_error: cuMemAddressReserve(&addr, 34359738368, 0, 0, 0): out of memory",
            "addresses-for-the-pool-cannot-be-reserved",
        ),
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 512.00 MiB on device 0: "
            "cudaMalloc failed: out of memory",
            "out-of-memory-after-prefill",
        ),
        (
            "CUDA error: no kernel image is available for execution on the device",
            "kernels-for-another-gpu",
        ),
        (
            "Mismatch version jtop service: [4.2.2] and client: [4.2.1]",
            "jetson-stats-does-not-answer",
        ),
        ("[12345.6] soctherm: OC ALARM: System throttled due to over-current", ""),
        (
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 3: invalid",
            "encoding-errors-in-the-input",
        ),
        (
            "kernel: Out of memory: Killed process 4711 (python3) total-vm:61231244kB",
            "the-process-is-killed",
        ),
        ("Illegal instruction (core dumped)", "illegal-instruction"),
    ],
)
def test_what_other_programs_print_is_found(printed: str, name: str) -> None:
    name = name or "the-supply-gives-too-little"
    assert best(printed) == name
    log = f"Nov 30 host app[1]: starting\n{printed}\nNov 30 host app[1]: stopped with status 1\n"
    assert best(log) == name


@pytest.mark.parametrize(
    "alert, name",
    [
        ("temperature 85.5 °C (tj), above 85 °C", "speed-falls-after-some-minutes"),
        ("throttled: cpu-throttle-alert", "speed-falls-after-some-minutes"),
        ("power 31.0 W, above 30 W", "power-is-above-the-budget"),
        ("memory 96 % used, above 95 %", "the-process-is-killed"),
        (
            "over-current events: 2 more, 5 since the machine was started",
            "the-supply-gives-too-little",
        ),
        ("KV cache 91 % full, above 85 %: a.gguf (7-0)", "answers-are-preempted"),
        (
            "TTFT 664 ms, above 500 ms, mean of 10 answers: a.gguf (7-0)",
            "ttft-is-long-for-every-request",
        ),
        ("TPOT 64.1 ms, above 60 ms, mean of 10 answers: a.gguf (7-0)", "every-token-is-slow"),
        (
            "engine 7-0: a.gguf was killed or has crashed: its socket is left, and nobody answers",
            "the-process-is-killed",
        ),
        (
            "engine 7-0: has said nothing for 9 s: its process hangs or is stopped",
            "a-command-hangs",
        ),
    ],
)
def test_every_alert_of_the_monitor_is_found(alert: str, name: str) -> None:
    assert best(alert) == name
    raised = json.dumps({"event": "raised", "at_ms": 1.0, "rule": "x", "text": alert})
    assert [best(text) for text in said(f"Nov 30 21:00:00 host orin-llm[7]: {raised}")] == [name]


def test_of_a_log_of_json_only_what_is_said_is_looked_at() -> None:
    machine = {"at_ms": 1.0, "throttled": [], "over_current_events": 3, "alerts": []}
    assert list(said(json.dumps(machine))) == []
    assert list(said(json.dumps({**machine, "problems": {"jtop": "not active"}}))) == ["not active"]
    assert list(said(json.dumps({"event": "cleared", "text": "TTFT 664 ms, above 500 ms"}))) == []
    assert list(said(json.dumps({"level": "error", "msg": "out of memory", "n": 3}))) == [
        "out of memory"
    ]
    for line in ("x {not json}", "[1, 2]", "{", '{"a": ' * 5000):
        assert list(said(line)) == [line]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("wrong")
    contents = {
        "cut": tiny_model.read_bytes()[:1000],
        "latin": "déjà vu".encode("latin-1"),
        "binary": b"GGUF\0\0\0",
        "long": b"word " * 500,
        "encoder": tiny_encoder().data,
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    # As `--root` it is a PC, and as PATH it has no tool of a board.
    return {
        "tiny": str(tiny_model),
        "folder": str(folder),
        **{name: str(folder / name) for name in contents},
    }


@pytest.mark.parametrize(
    "command, name",
    [
        ("run -m nosuchmodel -p x", "the-model-is-not-found"),
        ("run -m {cut} -p x", "the-model-file-is-damaged"),
        ("run -m {tiny} -f {latin}", "encoding-errors-in-the-input"),
        ("run -m {tiny} -f {binary}", "encoding-errors-in-the-input"),
        ("run -m {tiny} -c 64 --raw -f {long}", "the-prompt-is-too-long"),
        ("run -m {tiny} --raw -p x --cpus 1023", "threads-get-in-each-others-way"),
        (
            "run -m {tiny} --raw -p x --flash off --hooks none -ctk f16:q8_0",
            "flash-attention-aborts",
        ),
        ("run -m {tiny} --raw -p x -c 128 --kv-memory 64", "answers-are-preempted"),
        ("run -m {encoder} --raw -p x", "the-model-is-of-a-kind-that-does-not-run"),
        ("run -m {tiny} --raw -p x -ctk q8_0", "the-model-is-of-a-kind-that-does-not-run"),
        ("monitor --once --engine 1", "the-monitor-sees-no-engine"),
        ("monitor --once --source tegrastats", "sensors-are-missing-or-absurd"),
        ("setup apply --root {folder}", "the-setup-refuses"),
        ("run -m {latin} --raw -p x", "the-model-file-is-damaged"),
        ("profile show nosuchprofile", "a-profile-is-not-used"),
        ("trace summarize {long}", "the-profiler-records-nothing"),
        ("bench serve http://127.0.0.1:1", "a-server-cannot-be-measured"),
    ],
)
def test_an_error_of_our_own_commands_is_found(
    files: dict[str, str], command: str, name: str
) -> None:
    failed = CliRunner().invoke(app, command.format(**files).split(), env={"PATH": files["folder"]})
    assert failed.exit_code != 0
    assert best(failed.stderr) == name, failed.stderr


@pytest.mark.parametrize("text", ["", "banana", "it is not", "INFO listening on port 8080", "???"])
def test_what_is_no_symptom_finds_nothing(text: str) -> None:
    assert INDEX.find([text]) == []


@given(st.lists(st.text(max_size=80), max_size=4))
def test_any_lines_give_the_best_first_and_each_entry_once(lines: list[str]) -> None:
    fits = INDEX.find(lines)
    assert [fit.score for fit in fits] == sorted((fit.score for fit in fits), reverse=True)
    assert len({fit.entry.name for fit in fits}) == len(fits)
    assert all(fit.line in lines for fit in fits)


@pytest.mark.parametrize("entry", read_guide(), ids=lambda entry: entry.name)
def test_every_entry_is_found_by_its_own_words(entry: Entry) -> None:
    assert INDEX.named(entry.title) == INDEX.named(entry.name) == entry
    assert best(entry.title) == entry.name
    for message in entry.messages:
        names = [fit.entry.name for fit in INDEX.find([message.replace("…", "17")])]
        assert entry.name in names[:3], message


def test_a_message_is_found_whatever_is_filled_in() -> None:
    pattern = message_pattern("the disk of … is full: free some")
    for text in (
        "error: the disk of /a b/c is full: free some and",
        "The disk of is full, free some",
    ):
        assert pattern.search(" ".join(plain_words(text)))
    assert not pattern.search("the disk of a is fuller free some")


@pytest.mark.parametrize("words", ["throttle throttled throttling throttles", "jump jumps jumping"])
def test_forms_of_a_word_have_one_stem(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == 1
