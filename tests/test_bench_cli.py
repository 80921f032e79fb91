"""`orin-llm bench` as a shell sees it."""

from __future__ import annotations

import csv
import inspect
import io
import json
from pathlib import Path
from typing import get_args

import pytest
from bench_support import run_bench
from processes import python, run
from typer.testing import CliRunner

from orin_llm.cli.bench import bench
from orin_llm.cli.bench_options import EnginesOptions
from orin_llm.cli.main import app
from orin_llm.engine import EngineConfig

QUICK = ("-p", "16", "-n", "4", "-r", "2", "-t", "1")


def test_results_are_on_stdout_and_progress_on_stderr(tiny_model: Path) -> None:
    code, out, err = run_bench(tiny_model, *QUICK)
    assert code == 0
    assert "| single p16 n4 |" in out and "decode tok/s" in out
    assert err.splitlines() == [
        f"single p16 n4, {what}: orin-llm all" for what in ("warm-up", "1/2", "2/2")
    ]


def test_quiet_says_nothing_but_the_results(tiny_model: Path) -> None:
    code, out, err = run_bench(tiny_model, *QUICK, "-q")
    assert (code, err) == (0, "") and out


def test_a_narrow_encoding_of_stdout_costs_no_results(tiny_model: Path) -> None:
    code, out, err = run_bench(tiny_model, "-p", "8", "-n", "2", PYTHONIOENCODING="ascii")
    assert code == 0 and "Traceback" not in err
    assert "tok/s" in out and out.isascii()


def test_json_has_a_result_for_each_combination(tiny_model: Path) -> None:
    arguments = ("concurrent", *QUICK[2:], "-p", "8,4..16", "-np", "1-4*2", "--chunk-size", "16,32")
    code, out, _ = run_bench(tiny_model, *arguments, "--json", "-q")
    assert code == 0
    results = json.loads(out)["results"]
    assert len(results) == 2 * 3 * 2
    assert all(result["completed"] == 2 * result["workload"]["streams"] for result in results)
    assert all(result["failed"] == 0 for result in results)


def test_json_lines_and_csv_come_from_the_same_results(tiny_model: Path) -> None:
    _, lines, _ = run_bench(tiny_model, *QUICK, "-q", "-o", "jsonl")
    _, table, _ = run_bench(tiny_model, *QUICK, "-q", ORIN_LLM_OUTPUT="csv")
    (found,) = (json.loads(line) for line in lines.splitlines())
    (row,) = csv.DictReader(io.StringIO(table))
    assert found["label"] == row["label"] == "single p16 n4"
    assert row["workload.prompt_tokens"] == "16"


def test_a_trace_and_a_shared_prefix_are_run(tiny_model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"arrival_ms": 5, "prompt_tokens": 7, "max_tokens": 3}\n')
    code, out, _ = run_bench(tiny_model, "concurrent", "--trace", str(trace), "-r", "1", "-q")
    assert code == 0 and "| trace t.jsonl ×4 |" in out
    shared = ("shared-prefix", "--system-tokens", "64", "-p", "4", "-n", "2")
    code, out, _ = run_bench(tiny_model, *shared, "-r", "1", "-q")
    assert code == 0 and "others_over_first" in out


def test_interference_is_told_in_chunk_steps(smollm2: Path) -> None:
    streams = ("-np", "2", "-p", "4", "-n", "40", "--long-prompt", "64", "--short-prompt", "4")
    once = ("-r", "1", "--warmup", "0", "-t", "1", "-q")
    code, out, err = run_bench(
        smollm2, "interference", *streams, *once, "--chunk-size", "32", "--json"
    )
    assert (code, err) == (0, "")
    (found,) = json.loads(out)["results"]
    assert found["peak_concurrency"] == 4
    assert {"worst_itl_in_chunk_steps", "short_ttft_in_chunk_steps"} <= found["figures"].keys()


def test_hooks_are_compared_in_one_run(tiny_model: Path) -> None:
    code, out, _ = run_bench(tiny_model, *QUICK, "--ab=-attention,-pages", "-q", "--json")
    assert code == 0
    first, second = json.loads(out)["results"]
    assert first["engine"]["name"] == "orin-llm all"
    assert second["engine"]["name"] == "orin-llm -attention,-pages"
    assert second["speedup"]["decode_tokens_per_s"]["median"] > 0


def test_stock_takes_turns_with_the_same_work(needs_stock: None, smollm2: Path) -> None:
    arguments = ("concurrent", "-np", "2", "-p", "8", "-n", "3", "-r", "1", "-t", "1")
    code, out, err = run_bench(smollm2, *arguments, "--peer", "stock", "--json")
    assert code == 0, err
    ours, stock = json.loads(out)["results"]
    assert (ours["engine"]["name"], stock["engine"]["name"]) == ("orin-llm all", "stock")
    for name in ("prefill_tokens_per_s", "decode_tokens_per_s", "output_tokens_per_s"):
        ratio = ours["figures"][name]["median"] / stock["figures"][name]["median"]
        assert stock["speedup"][name]["median"] == pytest.approx(ratio)
    assert [line.split(": ")[-1] for line in err.splitlines()] == [
        "orin-llm all", "stock", "stock", "orin-llm all"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("double",), "no workload 'double'"),
        (("-p", "x"), "-p has 'x'"),
        (("-o", "xml"), "no output format 'xml': choose one of md, json, jsonl, csv"),
        (("--peer", "vllm"), "no peer 'vllm'"),
        (("-ctk", "f16,f8"), "kv_type"),
        (("-t", "1,x"), "-t has 'x'"),
        (("--ab", "speed"), "unknown hook 'speed'"),
        (("-r", "0"), "0 repetitions"),
        (("--kv-memory", "much"), "--kv-memory"),
        (("single", "--trace", "t.csv"), "--trace has no place in single"),
        (("-p", "99999"), "single p99999 n128 needs 100127 tokens"),
        (("-p", "99999"), "choose fewer (-p, -n, -d)"),
        (("--kv-memory", "16", "-p", "32", "-n", "8"), "needs 40 tokens"),
        (("--kv-memory", "16", "-p", "32", "-n", "8"), "a KV memory of 16 holds 16"),
        (("--kv-memory", "16", "-p", "32", "-n", "8"), "fewer tokens (-p, -n, -d)"),
        (("--hooks", "none", "--ab", "none"), "--ab none: these are the hooks of the first"),
        (("--json", "-o", "csv"), "--json and -o csv contradict"),
        (("-p", "9" * 5000), "-p has a number of 5000 digits"),
        (("--kv-memory", "9" * 400 + "GB"), "--kv-memory"),
        (("concurrent", "--trace", "/nope"), "--trace /nope: No such file"),
        (("concurrent", "-np", "65"), "at most 64 (-np)"),
        (("interference", "-np", "63"), "at most 64 (-np)"),
        (("shared-prefix", "--peer", "stock"), "--peer stock can only run"),
    ],
)
def test_wrong_usage_exits_with_2_before_anything_is_measured(
    tiny_model: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    done = CliRunner().invoke(app, ["bench", "-m", str(tiny_model), *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and complaint in done.stderr
    assert "ctx-size" not in done.stderr  # a flag that bench has not


@pytest.mark.parametrize(
    ("flags", "variables", "begin"),
    [
        (("--json", "-o", "json"), {}, "{"),
        (("--json",), {"ORIN_LLM_OUTPUT": "csv"}, "{"),
        (("-o", "csv"), {"ORIN_LLM_JSON": "1"}, "version,"),
        ((), {"ORIN_LLM_JSON": "1"}, "{"),
    ],
)
def test_the_format_on_the_command_line_goes_before_the_environment(
    tiny_model: Path, flags: tuple[str, ...], variables: dict[str, str], begin: str
) -> None:
    code, out, _ = run_bench(tiny_model, *QUICK, *flags, "-q", **variables)
    assert code == 0 and out.startswith(begin)


def test_a_long_prompt_that_fills_no_chunk_is_told_before_the_start(smollm2: Path) -> None:
    lengths = ("-np", "2", "-p", "32", "-n", "8", "--long-prompt", "600,256")
    code, out, err = run_bench(smollm2, "interference", *lengths)
    assert (code, out) == (2, "")
    assert err.startswith("error: a long prompt of 256 tokens fills no step of 512: choose")
    assert "--long-prompt" in err and "--chunk-size" in err


def test_help_says_what_a_kv_memory_is() -> None:
    done = CliRunner().invoke(app, ["bench", "-h"], env={"COLUMNS": "200"})
    (line,) = (line for line in done.stdout.splitlines() if "--kv-memory" in line)
    assert "TOKENS|SIZE" in line


def test_help_loads_no_engine() -> None:
    program = """
        import sys
        import orin_llm.cli.bench
        assert {"numpy", "orin_llm._native", "orin_llm.engine"}.isdisjoint(sys.modules)
    """
    done = run(python(program))
    assert done.returncode == 0, done.stderr


def test_flag_defaults_are_the_engine_s() -> None:
    assert EnginesOptions().configs() == (EngineConfig(),)


def test_a_list_of_flash_attention_makes_an_engine_for_each_on_the_same_cores() -> None:
    configs = EnginesOptions(flash="on, off", cpus="0,1").configs()
    assert [config.flash_attention for config in configs] == ["on", "off"]
    assert {config.cpus for config in configs} == {"0-1"}


def test_every_flag_has_its_own_environment_mirror() -> None:
    mirrors = []
    for name, parameter in inspect.signature(bench).parameters.items():
        if name not in ("ctx", "workload", "root"):
            (option,) = get_args(parameter.annotation)[1:]
            mirrors.append(option.envvar)
            assert option.envvar.startswith("ORIN_LLM_")
    assert len(set(mirrors)) == len(mirrors) > 15


def test_flags_of_sweeps_have_their_second_names_and_make_it_concurrent(tiny_model: Path) -> None:
    sweep = ("--prompt", "8,12", "--gen", "3", "--depth", "0", "--concurrency", "1,2")
    engine = ("--chunk", "16", "--page", "8", "--kv-type", "f16", "--flash", "auto")
    code, out, err = run_bench(tiny_model, *sweep, *engine, "-r", "1", "-t", "1", "--json", "-q")
    assert code == 0, err
    results = json.loads(out)["results"]
    assert [result["label"] for result in results] == [
        f"{kind} p{prompt} n3"
        for kind in ("single", "concurrent ×2")
        for prompt in (8, 12)
    ]  # fmt: skip
    assert all(result["engine"]["page_size"] == 8 for result in results)
