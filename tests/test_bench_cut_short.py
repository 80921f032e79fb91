"""What `orin-llm bench` leaves where Ctrl-C or an error ends it."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest
from bench_support import children, run_bench
from processes import CLI, interrupt, start
from stats_support import until

LONG_BEHIND_SHORT = ("-p", "8", "-n", "2,2000", "-r", "9", "--warmup", "0", "-t", "1")


def interrupted_in_the_second(model: Path, layout: str) -> tuple[str, str]:
    """The stdout of a run that Ctrl-C ended in the second of two workloads, and its last words."""
    process = start([*CLI, "bench", "-m", str(model), *LONG_BEHIND_SHORT, "-o", layout])
    assert process.stderr is not None
    while "n2000" not in process.stderr.readline():
        pass
    out, err = interrupt(process)
    assert process.returncode == 130 and "Traceback" not in err
    return out, err.splitlines()[-1]


def test_ctrl_c_keeps_the_results_of_what_had_ended_and_says_so(smollm2: Path) -> None:
    some = "interrupted: 1 of 2 workloads are printed"
    out, said = interrupted_in_the_second(smollm2, "md")
    assert "| single p8 n2 |" in out and said == some
    out, said = interrupted_in_the_second(smollm2, "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["label"], row["completed"], said) == ("single p8 n2", "9", some)
    assert interrupted_in_the_second(smollm2, "json") == ("", "interrupted: nothing is printed")


def test_json_lines_come_as_soon_as_each_result_is_there(smollm2: Path) -> None:
    process = start([*CLI, "bench", "-m", str(smollm2), *LONG_BEHIND_SHORT, "-o", "jsonl", "-q"])
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["label"] == "single p8 n2"
    assert process.poll() is None
    out, err = interrupt(process)
    assert (process.returncode, out) == (130, "")
    assert err == "interrupted: 1 of 2 workloads are printed\n"


def test_ctrl_c_keeps_the_repetitions_that_had_ended(smollm2: Path) -> None:
    work = ("-p", "8", "-n", "20", "-r", "5000", "--warmup", "0", "-t", "1", "-o", "csv")
    process = start([*CLI, "bench", "-m", str(smollm2), *work])
    assert process.stderr is not None
    while " 4/5000:" not in process.stderr.readline():
        pass
    out, err = interrupt(process)
    assert process.returncode == 130 and "Traceback" not in err
    (row,) = csv.DictReader(io.StringIO(out))
    assert int(row["repetitions"]) == int(row["completed"]) >= 3
    said = "interrupted: 1 of 1 workloads are printed, the last with fewer repetitions"
    assert err.splitlines()[-1] == said


@pytest.mark.parametrize("layout", ["md", "json", "jsonl", "csv"])
def test_an_error_keeps_the_results_of_what_had_ended(smollm2: Path, layout: str) -> None:
    lengths = ("-np", "1", "-p", "2", "-n", "30,2", "--long-prompt", "40", "--short-prompt", "2")
    arguments = ("interference", *lengths, "--chunk-size", "32", "-r", "1", "-t", "1", "-q")
    code, out, err = run_bench(smollm2, *arguments, "--warmup", "0", "-o", layout)
    assert code == 2 and "the streams ended before the long prompt was read" in err
    assert "n30 long 40" in out and "n2 long 40" not in out


def test_ctrl_c_ends_all_processes_and_prints_no_result(needs_stock: None, smollm2: Path) -> None:
    work = ("-p", "64", "-n", "64", "-t", "1", "-r", "9", "--peer", "stock")
    process = start([*CLI, "bench", "-m", str(smollm2), *work])
    assert process.stderr is not None
    while "1/9" not in process.stderr.readline():
        pass
    peers = children(process.pid)
    out, err = interrupt(process)
    assert process.returncode == 130
    assert out == "" and "Traceback" not in err
    assert len(peers) == 1
    until(lambda: not any(map(is_running, peers)), "the peers' end")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
