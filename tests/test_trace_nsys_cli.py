"""`orin-llm trace summarize`, and runs under a stand-in for nsys. The exports are synthetic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from nsys_exports import ENGINE_THREAD, MAIN_THREAD, exported_steps
from processes import CLI, environment, run
from trace_event_format import read_trace_file
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.device.build import build_info
from orin_llm.errors import DeviceUnavailable, OrinError
from orin_llm.trace.nsys import Profiling, run_profiler
from orin_llm.trace.nsys_export import read_export
from orin_llm.trace.nsys_summary import BETWEEN, summarize
from orin_llm.trace.record import CAPTURE_RANGE


def test_the_command_prints_tables_or_json(tmp_path: Path) -> None:
    path = str(exported_steps().write(tmp_path / "a.sqlite"))
    command = [*CLI, "trace", "summarize", path]
    text = run(command, env=environment())
    assert text.returncode == 0 and text.stderr == ""
    lines = text.stdout.splitlines()
    assert lines[0].split()[:2] == ["PHASE", "STEPS"] and lines[1].startswith("prefill")
    assert any("gemm<float, 128>" in line and "92.3 %" in line for line in lines)
    top = run([*command, "--top", "1"], env=environment()).stdout
    assert "attention" not in top and "those with the most time of 2" in top
    found = json.loads(run([*command, "--json"], env=environment()).stdout)
    assert [phase["name"] for phase in found["phases"]] == ["prefill", "decode", "other"]
    assert found["between"]["count"] == 2
    wrong = run([*CLI, "trace", "summarize", str(tmp_path)], env=environment())
    assert wrong.returncode == 2 and "no such file" in wrong.stderr


def test_nsys_waits_for_the_range_that_a_traced_run_opens(tmp_path: Path) -> None:
    profiling = Profiling(("program", "-x"), tmp_path / "t")
    assert profiling.profile[:2] == ("nsys", "profile")
    assert profiling.profile[-2:] == ("program", "-x")
    assert f"--nvtx-capture={CAPTURE_RANGE}" in profiling.profile
    assert " " not in CAPTURE_RANGE and "@" not in CAPTURE_RANGE  # RANGE@DOMAIN
    assert str(profiling.sqlite) in profiling.summarize
    assert ENGINE_THREAD != MAIN_THREAD and BETWEEN not in ("prefill", "decode")


NSYS = """#!/bin/sh
# Stands in for nsys: runs the command, "records" and exports what is prepared.
echo "nsys $1" >> calls
case $1 in
profile)
    while [ "${1#--}" != "$1" ] || [ "$1" = profile ]; do shift; done
    "$@"; code=$?
    [ -z "$FAILING" ] || exit 5
    exit $code ;;
export) [ -n "$NOTHING" ] || cp prepared.sqlite t.sqlite ;;
esac
"""


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a fake nsys on the PATH."""
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(NSYS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    exported_steps().write(tmp_path / "prepared.sqlite")
    return tmp_path


def test_nsys_profiles_and_exports_one_after_the_other(
    nsys: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profiling = Profiling(("sh", "-c", "echo answer; echo run >> calls"), Path("t"))
    path = run_profiler(profiling)
    assert Path("calls").read_text().split("\n") == ["nsys profile", "run", "nsys export", ""]
    assert len(summarize(read_export(path)).phases) == 3
    assert capfd.readouterr() == ("", "answer\n")  # stdout is for the summary


@pytest.mark.parametrize(
    ("variable", "message"),
    [("FAILING", "nsys profile failed with exit code 5"), ("NOTHING", "made no")],
)
def test_an_nsys_that_fails_is_told(
    nsys: Path, monkeypatch: pytest.MonkeyPatch, variable: str, message: str
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(OrinError, match=message):
        run_profiler(Profiling(("true",), Path("t")))


def test_without_nsys_the_device_is_missing_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceUnavailable, match="nsys is not on the PATH"):
        run_profiler(Profiling(("true",), tmp_path / "t"))


def test_a_run_under_nsys_writes_its_trace_and_prints_the_summary(
    nsys: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["trace", "-m", str(tiny_model), "-p", "20", "-n", "3", "-t", "1", "-o", "t.json"]
    flags += ["--nsys", "run"]
    with_cuda = replace(build_info(), cuda=True)
    monkeypatch.setattr("orin_llm.device.build.build_info", lambda: with_cuda)
    monkeypatch.setattr("sys.argv", ["orin-llm", *flags])
    done = CliRunner().invoke(app, flags)
    assert (done.exit_code, Path("calls").read_text()) == (0, "nsys profile\nnsys export\n")
    assert "gemm<float, 128>" in done.stdout
    assert read_trace_file(Path("t.json"))["traceEvents"]
    kept = Path("t.json").stat().st_mtime_ns
    again = CliRunner().invoke(app, flags)  # files are there
    assert again.exit_code == 2 and "--force" in again.stderr
    assert Path("t.json").stat().st_mtime_ns == kept
