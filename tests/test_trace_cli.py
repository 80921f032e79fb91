"""`orin-llm trace` as a shell sees it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from fakes import boards
from processes import CLI, environment, interrupt, run, start
from stats_support import until
from trace_event_format import check_events, read_trace_file, slices
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.errors import OrinError
from orin_llm.stats import attach

QUICK = ("-p", "40", "-n", "12", "-t", "1", "--chunk-size", "16", "--warmup", "0")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trace(model: Path, *arguments: str, on: boards.Machine | None = None) -> tuple[int, str, str]:
    """In this process."""
    flags = [] if on is None else ["--root", str(on.root)]
    variables = {} if on is None else {"PATH": on.path}
    done = CliRunner().invoke(app, ["trace", "-m", str(model), *arguments, *flags], env=variables)
    return done.exit_code, done.stdout, done.stderr


def values(events: list[dict[str, Any]], counter: str) -> set[float]:
    return {v for e in events if e["name"] == counter for v in e["args"].values()}


def test_a_run_on_a_board_is_a_trace_and_a_picture(tiny_model: Path, tmp_path: Path) -> None:
    board = boards.jetson(tmp_path / "board", boards.AGX_64_JP6)
    code, out, err = trace(tiny_model, *QUICK, "--picture", "t.png", on=board)
    assert code == 0, err
    assert err.splitlines() == [
        "single p40 n12, traced",
        "written: trace.json (open it at https://ui.perfetto.dev), and t.png",
    ]
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    found = read_trace_file(tmp_path / "trace.json")
    events = found["traceEvents"]
    check_events(events)
    chunks = [e["args"]["prompt_tokens"] for e in slices(events, "prefill chunks")]
    assert chunks == [16, 16, 8]
    assert len(slices(events, "decode steps")) == 11
    assert slices(events, "request lane 1")[0]["name"] == "stream 1"
    taken = [e["args"]["count"] for e in slices(events, "page events")]
    assert sum(taken) == 4  # pages of 16 for 40 + 11 tokens
    assert values(events, "power (W)") == {boards.AGX_WATTS}
    assert values(events, "EMC (%)") == {84.0} and values(events, "GPU (%)") == {92.0}
    assert values(events, "EMC (MHz)") == {3199.0}
    assert found["otherData"]["stamp"]["power_mode"] == "MODE_30W"
    assert found["otherData"]["workload"]["prompt_tokens"] == 40
    assert "92 % GPU, EMC 3199 MHz" in out and "31.0 W" in out


def test_figures_are_those_of_the_steps(tiny_model: Path, tmp_path: Path) -> None:
    code, out, err = trace(tiny_model, *QUICK, "--json", "-q", "-o", "a.json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    prefill, decode = found["prefill"], found["decode"]
    assert (prefill["steps"], prefill["prompt_tokens"]) == (3, 40)
    assert (decode["steps"], decode["decode_tokens"]) == (11, 11)
    reads = [1, 2, 3] + [-(-n // 16) for n in range(41, 52)]
    assert found["pages"]["lookups"] == sum(reads) and found["pages"]["misses"] == 4
    assert found["pages"]["hit_rate"] == pytest.approx(1 - 4 / sum(reads))
    for phase in (prefill, decode):
        parts = phase["compute_ms"] + phase["sampling_ms"] + phase["host_ms"]
        assert parts == pytest.approx(phase["duration_ms"])
    assert found["files"] == ["a.json"]
    events = read_trace_file(tmp_path / "a.json")["traceEvents"]
    total = sum(e["dur"] for e in slices(events, "decode steps"))
    assert total / 1e3 == pytest.approx(decode["duration_ms"], abs=0.1)
    gaps = sum(e["dur"] for e in slices(events, "host gaps"))
    assert gaps / 1e3 == pytest.approx(sum(found["gaps_ms"].values()), abs=0.1)


def test_requests_at_once_have_lanes_of_their_own(tiny_model: Path, tmp_path: Path) -> None:
    flags = ("interference", "-np", "2", "-p", "8", "-n", "60", "--long-prompt", "100")
    more = ("--short-prompt", "8", "-t", "1", "--chunk-size", "16", "--no-readings", "-q")
    code, _, err = trace(tiny_model, *flags, *more)
    assert code == 0, err
    events = read_trace_file(tmp_path / "trace.json")["traceEvents"]
    check_events(events)
    names = {e["name"] for n in (1, 2, 3, 4) for e in slices(events, f"request lane {n}")}
    assert {"stream 1", "stream 2", "long 3", "short 4"} <= names
    assert sum(e["ph"] == "s" for e in events) == 4
    prompts = sum(e["args"]["prompt_tokens"] for e in slices(events, "prefill chunks"))
    assert prompts == 2 * 8 + 100 + 8 and not any(e["pid"] == 3 for e in events)


def test_several_streams_are_concurrent_as_for_bench(tiny_model: Path, tmp_path: Path) -> None:
    code, out, _ = trace(tiny_model, *QUICK, "-np", "3", "--no-readings", "-q")
    assert code == 0 and "concurrent ×3 p40 n12: 3 requests" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "8,16"), "these flags make 2 (single p8"),
        (("-t", "1,2"), "these flags make 2 engines"),
        (("load",), "a start cannot be traced"),
        (("nothing",), "no workload 'nothing'"),
        (("-o", "."), "is a directory"),
        (("-o", "no/t.json"), "does not exist"),
        (("-o", "same", "--picture", "same"), "name two files"),
        (("--nsys", "perhaps"), "choose one of off, print, run"),
        (("-p", "8", "-n", "4", "--interval", "1"), "10 … 10000"),
        (("--warmup", "-1"), "warm-up"),
        (("--cost", "-1"), "--cost"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_loaded(
    tiny_model: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = trace(tiny_model, *arguments)
    assert (code, out) == (2, "") and message in err, err
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_stays_unless_forced(tiny_model: Path, tmp_path: Path) -> None:
    kept = tmp_path / "trace.json"
    kept.write_text("mine")
    code, _, err = trace(tiny_model, *QUICK)
    assert code == 2 and "--force" in err and kept.read_text() == "mine"
    code, _, _ = trace(tiny_model, *QUICK, "--force", "-q")
    assert code == 0 and kept.read_text() != "mine"


def test_figures_are_not_lost_where_a_file_cannot_be_written(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OrinError("the disk filled up")

    monkeypatch.setattr("orin_llm.plots.charts.save_png", full)
    code, out, err = trace(tiny_model, *QUICK, "--json", "--picture", "p.png")
    assert code == 1 and err.endswith("error: the disk filled up\n")
    found = json.loads(out)
    assert found["files"] == ["trace.json"] and found["decode"]["steps"] == 11


def test_ctrl_c_keeps_what_was_seen(smollm2: Path, tmp_path: Path) -> None:
    output = tmp_path / "t.json"
    flags = ("-p", "4", "-n", "2000", "-t", "1", "--warmup", "0", "-o", str(output))
    command = [*CLI, "trace", "-m", str(smollm2), *flags]
    process = start(command, env=environment(XDG_RUNTIME_DIR=str(tmp_path)))
    assert process.stderr is not None
    while "traced" not in process.stderr.readline():
        pass
    (socket,) = tmp_path.glob("orin-llm/*.sock")
    with attach(socket, interval_ms=20) as lines:
        until(lambda: next(lines)["steps"]["decode"] > 2, "some steps")
    out, err = interrupt(process)
    assert process.returncode == 130, err
    assert "interrupted" in err and "decode" in out
    events = read_trace_file(output)["traceEvents"]
    check_events(events)
    assert slices(events, "decode steps") and not slices(events, "request lane 1")


def test_the_cost_of_tracing_is_told_by_pairs_of_runs(tiny_model: Path, tmp_path: Path) -> None:
    code, out, err = trace(tiny_model, *QUICK, "--cost", "3", "--json", "--interval", "10")
    assert code == 0 and not list(tmp_path.iterdir())
    turns = [line.partition(": ")[2] for line in err.splitlines()]
    assert sorted(turns) == ["not traced"] * 3 + ["traced"] * 3
    found = json.loads(out)
    assert found["interval_ms"] == 10
    for ratio in found["traced_over_not"].values():
        assert ratio["count"] == 3 and ratio["low"] < ratio["mean"] < ratio["high"]
    for flags in (["--no-readings"], ["--nsys", "print"]):
        code, out, err = trace(tiny_model, *QUICK, "--cost", "3", *flags)
        assert (code, out) == (2, "") and "--cost" in err


def test_the_commands_for_nsys_run_this_very_command(tiny_model: Path, tmp_path: Path) -> None:
    flags = ["-m", str(tiny_model), *QUICK, "-o", "a b.json", "--nsys", "print"]
    printed = run([*CLI, "trace", *flags], env=environment(), cwd=tmp_path)
    assert printed.returncode == 0 and not list(tmp_path.iterdir())
    profile, export, summarize = map(shlex.split, printed.stdout.splitlines())
    assert profile[:2] == ["nsys", "profile"] and "--output=a b" in profile
    command = profile[profile.index("-m") - 1 :]
    assert command[-1] == "--nsys=off" and "--output=a b.sqlite" in export
    assert summarize == ["orin-llm", "trace", "summarize", "a b.sqlite"]
    done = run(command, env=environment(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    check_events(read_trace_file(tmp_path / "a b.json")["traceEvents"])
