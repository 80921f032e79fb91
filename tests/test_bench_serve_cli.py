"""`orin-llm bench serve` as a shell sees it, on a stub server in a thread."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import boards
from processes import CLI, interrupt, run, start
from stub_server import Stub, error_reply
from typer.testing import CliRunner

from orin_llm.cli.main import app

QUICK = ("-p", "40", "-n", "3", "--requests", "4", "--warmup", "0")


@pytest.fixture
def stub() -> Stub:
    return Stub(first_ms=20, gap_ms=5)


@pytest.fixture
def url(stub: Stub) -> Iterator[str]:
    with stub.running_apart() as address:
        yield address


def serve(*arguments: str, **variables: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["bench", "serve", *arguments], env=variables)
    return done.exit_code, done.stdout, done.stderr


def test_results_are_on_stdout_and_progress_on_stderr(url: str) -> None:
    code, out, err = serve(url, *QUICK)
    assert code == 0
    assert f"on {url}/v1 (stub/1), on the same machine" in out
    assert "model stub; tokens are counted as the server tells" in out
    assert "| serve ×1 p40 n3 |" in out and "output tok/s" in out and "| connect" in out
    assert err.splitlines()[0] == "serve ×1 p40 n3, 1/1"


def test_times_are_near_the_delays_of_a_server_on_a_real_clock(url: str, stub: Stub) -> None:
    """Never shorter; by how much longer is the machine's own."""
    stub.first_ms, stub.gap_ms = 200, 50
    code, out, _ = serve(url, *QUICK, "-np", "4", "--json", "-q")
    (result,) = json.loads(out)["results"]
    assert (code, result["completed"]) == (0, 4)
    ttft, e2el = (result["latency"][name]["p50"] for name in ("ttft_ms", "e2el_ms"))
    assert 199 < ttft < e2el
    assert e2el > 200 + 2 * 50 - 1  # an answer of three tokens


def test_all_formats_come_from_the_same_results(url: str) -> None:
    sweep = ("-np", "1-4*2", "-q", "--seed", "5")
    _, lines, _ = serve(url, *QUICK, *sweep, "-o", "jsonl")
    _, table, _ = serve(url, *QUICK, *sweep, "-o", "csv")
    _, object_, _ = serve(url, *QUICK, *sweep, "--json")
    rows = list(csv.DictReader(io.StringIO(table)))
    labels = ["serve ×1 p40 n3", "serve ×2 p40 n3", "serve ×4 p40 n3"]
    assert [json.loads(line)["label"] for line in lines.splitlines()] == labels
    assert [row["label"] for row in rows] == labels
    found = json.loads(object_)
    assert [result["label"] for result in found["results"]] == labels
    assert found["sweeps"][0]["load_name"] == "max_concurrency"
    assert found["server"]["model"] == rows[0]["server.model"] == "stub"
    assert found["results"][0]["seed"] == 5


def test_a_server_on_a_board_is_measured_with_its_sensors(url: str, tmp_path: Path) -> None:
    """The whole only: requests come while others are answered."""
    machine = boards.jetson(tmp_path, boards.AGX_64_JP6)
    board = ("--root", str(machine.root), "--json", "-q")
    loads = ("-p", "40", "-n", "20", "--requests", "8", "-np", "2")
    code, out, err = serve(url, *loads, *board, PATH=machine.path)
    found = json.loads(out)
    (result,) = found["results"]
    assert (code, err, found["stamp"]["module"]) == (0, "", "p3701-0005")
    assert result["device"]["whole"]["activity"]["power_w"] > 1
    assert result["device"]["whole"]["tokens"] == 160
    assert result["device"]["prefill"]["tokens"] == result["device"]["decode"]["tokens"] == 0
    code, out, _ = serve(url, *QUICK, *board, "--no-readings", PATH=machine.path)
    assert json.loads(out)["results"][0]["device"] is None


def test_a_server_is_set_against_another_one(url: str, stub: Stub, tmp_path: Path) -> None:
    stub.first_ms = 40
    _, out, _ = serve(url, *QUICK, "-r", "3", "-q", "--json")
    before = tmp_path / "before.json"
    before.write_text(out)
    with Stub(first_ms=160).running_apart() as other:
        code, out, err = serve(other, *QUICK, "-r", "3", "-q", "--vs", str(before), "--json")
    assert (code, err) == (0, "")
    (pair,) = json.loads(out)["versus"]["pairs"]
    changes = {change["figure"]: change for change in pair["changes"]}
    assert changes["ttft_ms"]["ratio"]["mean"] < 0.9 and changes["ttft_ms"]["ratio"]["significant"]


def test_rates_traces_and_datasets_are_run(url: str, stub: Stub, tmp_path: Path) -> None:
    code, out, _ = serve(url, *QUICK, "--rate", "50,100", "--fixed", "-np", "2", "-q", "--json")
    first, second = json.loads(out)["results"]
    assert code == 0 and first["workload"]["burstiness"] == "fixed"
    assert (first["label"], second["workload"]["rate_per_s"]) == ("serve 50/s ×2 p40 n3", 100)
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_ms,prompt_tokens,max_tokens\n0,30,2\n30,40,4\n")
    code, out, _ = serve(url, "--trace", str(trace), "-q", "--json")
    (result,) = json.loads(out)["results"]
    assert (code, result["completed"], result["figures"]["answer_tokens"]["mean"]) == (0, 2, 3)
    data = tmp_path / "d.jsonl"
    data.write_text('{"prompt": "tell me", "max_tokens": 2}\n')
    code, _, _ = serve(url, "--dataset", str(data), "--endpoint", "completions", "-q")
    assert code == 0 and stub.completions()[-1].prompt == "tell me"


def test_a_key_reaches_the_server_and_nobody_else(url: str, stub: Stub) -> None:
    stub.key = "very-secret"
    code, _, err = serve(url, *QUICK)
    assert code == 1 and "HTTP 401" in err and "ORIN_LLM_API_KEY" in err
    code, out, err = serve(url, *QUICK, "--json", ORIN_LLM_API_KEY="very-secret")
    assert code == 0 and "very-secret" not in out + err


def test_memory_is_told_of_a_model_that_the_server_runs(url: str, tiny_model: Path) -> None:
    code, out, _ = serve(url, *QUICK, "--model-file", str(tiny_model), "-q", "--json")
    found = json.loads(out)
    assert code == 0 and found["results"][0]["memory_allows"] > 1000
    assert found["model"]["parameters"] > 0


def test_failures_are_told_by_kind_and_end_with_1(url: str, stub: Stub) -> None:
    async def full(asked: Any, writer: Any) -> None:
        if len(stub.completions()) > 3:  # after it was found out about
            writer.write(error_reply(429, "slow down"))
        else:
            await stub._answer(asked, writer)

    stub.fault = full
    code, out, err = serve(url, *QUICK)
    assert code == 1
    assert "failed: 4 of serve ×1 p40 n3 (4 × HTTP 429): HTTP 429: 'slow down'" in out
    assert err.splitlines()[-1] == "error: 4 requests failed: HTTP 429: 'slow down'"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("ftp://x",), "ftp://x is no address"),
        (("x", "--rate", "fast"), "--rate fast: expected numbers"),
        (("x", "--rate", "0"), "--rate 0"),
        (("x", "--rate", "nan"), "--rate nan"),
        (("x", "--fixed"), "--fixed and --burstiness say how a --rate comes"),
        (("x", "--rate", "1", "--burstiness", "0"), "--burstiness 0"),
        (("x", "--rate", "1", "--fixed", "--burstiness", "2"), "--fixed has no --burstiness"),
        (("x", "--rate", "1", "--trace", "t"), "--rate and --trace"),
        (("x", "--trace", "a", "--dataset", "b"), "--trace and --dataset"),
        (("x", "--trace", "a", "--ramp", "2"), "--ramp has no place with --trace"),
        (("x", "--trace", "/nope"), "--trace /nope: No such file"),
        (("x", "-np", "0"), "--concurrency has 0"),
        (("x", "-np", "9999"), "--concurrency 9999"),
        (("x", "-p", "x"), "-p has 'x'"),
        (("x", "-n", "0"), "-n has 0"),
        (("x", "--requests", "0"), "--requests 0"),
        (("x", "--duration", "-1"), "--duration -1"),
        (("x", "--duration", "nan"), "--duration nan"),
        (("x", "--ramp", "-1"), "--ramp -1"),
        (("x", "--timeout", "0"), "--timeout 0"),
        (("x", "--goodput", "fast"), "--goodput has 'fast'"),
        (("x", "--endpoint", "chats"), "no endpoint 'chats'"),
        (("x", "--body", "{"), "--body is no JSON"),
        (("x", "--body", "[]"), "expected a JSON object"),
        (("x", "-r", "0"), "0 repetitions"),
        (("x", "--warmup", "-1"), "-1 requests to warm up"),
        (("x", "-o", "xml"), "no output format 'xml'"),
        (("http://192.0.2.1", "--model-file", "smollm2"), "--model-file is for a server on this"),
        ((), "Missing argument 'URL'"),
    ],
)
def test_wrong_usage_exits_with_2_before_anything_is_asked(
    arguments: tuple[str, ...], complaint: str
) -> None:
    code, out, err = serve(*arguments)
    assert (code, out) == (2, "") and complaint in err


def test_a_server_that_is_not_there_is_one_line(url: str) -> None:
    code, out, err = serve("127.0.0.1:1", *QUICK)
    assert (code, out) == (1, "")
    where = "http://127.0.0.1:1/v1: connect: 127.0.0.1:1: Connection refused"
    assert err == f"error: {where} (is the server running there?)\n"


def test_bench_without_serve_is_as_it_was() -> None:
    done = CliRunner().invoke(app, ["bench", "-m", "/no/model"])
    assert done.exit_code == 3 and "/no/model" in done.stderr


def test_ctrl_c_keeps_what_was_measured_of_a_load_and_says_so(url: str, stub: Stub) -> None:
    """The first of two loads ends; of the second, four requests, and then one that hangs."""
    stub.first_ms, stub.gap_ms = 1, 0
    hanging = threading.Event()

    async def hangs(asked: Any, writer: Any) -> None:
        if len(stub.completions()) == 3 + 8 + 5:  # three to find out about the server
            stub.first_ms = 1e6
            hanging.set()
        await stub._answer(asked, writer)

    stub.fault = hangs
    loads = ("-p", "40", "-n", "3,4", "--requests", "8", "--warmup", "0")
    process = start([*CLI, "bench", "serve", url, *loads, "-o", "csv"])
    assert hanging.wait(60)
    out, err = interrupt(process)
    assert process.returncode == 130 and "Traceback" not in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["label"], row["completed"], row["failed"]) for row in rows] == [
        ("serve ×1 p40 n3", "8", "0"),
        ("serve ×1 p40 n4 (interrupted)", "4", "0"),
    ]
    assert [row["workload.interrupted"] for row in rows] == ["", "True"]
    assert err.splitlines()[-1] == "interrupted: 2 of 2 workloads are printed"


def test_ctrl_c_ends_it_also_while_it_finds_out_about_the_server(url: str, stub: Stub) -> None:
    hanging = threading.Event()

    async def hangs(asked: Any, writer: Any) -> None:
        hanging.set()
        await asyncio.sleep(1e6)

    stub.fault = hangs
    process = start([*CLI, "bench", "serve", url])
    assert hanging.wait(60)
    out, err = interrupt(process)
    assert (process.returncode, out, err) == (130, "", "")


def test_a_pipe_that_closes_ends_it_quietly(url: str) -> None:
    done = run(["sh", "-c", f"{' '.join(CLI)} bench serve {url} -p 40 -n 2 --requests 2 -q | true"])
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("within", "code"), [("1000", 0), ("1e-9", 1)])
def test_the_check_of_known_delays_says_what_is_off(within: str, code: int) -> None:
    """What it finds on this machine is no matter here."""
    check = Path(__file__).parent.parent / "scripts" / "check_bench_serve.py"
    command = [sys.executable, str(check), "--only", "one user", "--requests", "1"]
    done = run([*command, "--within", within])
    assert done.returncode == code, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("one user")]
    assert {(row[2], float(row[3])) for row in rows} == {
        ("ttft_ms", 100), ("itl_ms", 25), ("tpot_ms", 25), ("e2el_ms", 475)
    }  # fmt: skip
    assert all(float(row[5]) > 99 for row in rows if row[2] == "ttft_ms")
