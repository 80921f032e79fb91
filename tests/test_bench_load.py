"""`bench load`: starts from nothing, in new processes, cold and warm, beside stock and the disk."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from bench_support import ENVIRONMENT, children
from gguf_bytes import tiny_llama_bytes
from load_support import make_cold, write_large_model
from models_support import write_split_model
from processes import CLI, interrupt, run, start
from stats_support import until
from typer.testing import CliRunner

from orin_llm.bench.distribution import Spread
from orin_llm.bench.report import FORMATS
from orin_llm.bench.result import Report
from orin_llm.bench.start_result import StartConditions
from orin_llm.bench.starts import Start
from orin_llm.bench.streams import OneToken
from orin_llm.cli.main import app
from orin_llm.host import page_cache

ONCE = ("-r", "1", "--warmup", "0", "-t", "1", "-p", "4")
PARTS = ("open_ms", "read_ms", "upload_ms")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny model on a disk, where it can be cold."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama_bytes())
    make_cold(path)
    return path


def bench_load(model: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run([*CLI, "bench", "load", "-m", str(model), *ONCE, "--json", *arguments])
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return results


def test_the_parts_of_a_start_make_up_the_time_to_the_first_token(model: Path) -> None:
    cold, disk, warm = bench_load(model)
    assert [r["label"] for r in (cold, disk, warm)] == ["load p4 cold"] * 2 + ["load p4 warm"]
    assert disk["engine"] == {"name": "disk, O_DIRECT"}
    for result in (cold, warm):
        figures = {name: spread["median"] for name, spread in result["figures"].items()}
        assert all(figures[name] >= 0 for name in PARTS)
        assert figures["weights_ms"] == pytest.approx(sum(figures[name] for name in PARTS))
        parts = ("weights_ms", "warmup_ms", "first_token_ms")
        assert figures["ttft_ms"] == pytest.approx(sum(figures[name] for name in parts))
        assert figures["process_ms"] > 1 and figures["again_ms"] > 0
        weights = figures["load_bytes_per_s"] * figures["weights_ms"] / 1e3
        assert 1000 < weights < model.stat().st_size


def test_what_is_read_around_the_page_cache_is_held_against_the_disk(tmp_path: Path) -> None:
    large = write_large_model(tmp_path / "large.gguf")
    make_cold(large)
    cold, disk, warm = bench_load(large, "--no-mmap")
    if cold["figures"]["direct_bytes"]["median"] == 0:
        pytest.skip("this file system has no direct reads")
    of_disk = cold["figures"]["read_bytes_per_s"]["median"]
    of_disk /= disk["figures"]["read_bytes_per_s"]["median"]
    assert cold["figures"]["of_disk"]["median"] == pytest.approx(of_disk)
    mapped, _ = bench_load(large, "--page-cache", "cold")
    for result in (warm, mapped):
        assert result["figures"].keys().isdisjoint({"read_bytes_per_s", "of_disk"})


def test_stock_and_other_hooks_take_turns(needs_stock: None, model: Path) -> None:
    ours, other, stock = bench_load(model, "--page-cache", "warm", "--peer", "stock", "--ab=-rope")
    assert [r["engine"]["name"] for r in (ours, other, stock)] == [
        "orin-llm all", "orin-llm -rope", "stock"
    ]  # fmt: skip
    ratio = stock["figures"]["ttft_ms"]["median"] / ours["figures"]["ttft_ms"]["median"]
    assert stock["speedup"]["ttft_ms"]["median"] == pytest.approx(ratio)
    assert stock["engine"]["n_ctx"] == ours["engine"]["n_ctx"]
    assert {"weights_ms", "warmup_ms", "first_token_ms"} <= stock["figures"].keys()


def test_all_files_of_a_split_model_are_made_cold_or_warm(tmp_path: Path) -> None:
    paths = write_split_model(tmp_path)
    for path in paths:
        make_cold(path)
    (warm,) = bench_load(paths[0], "--page-cache", "warm")
    total = sum(path.stat().st_size for path in paths)
    assert warm["figures"]["cached_after_bytes"]["median"] == total
    Start(paths, 1, "cold", [1]).prepare()
    assert [page_cache.cached_bytes(path) for path in paths] == [0, 0]


def test_a_file_in_memory_cannot_be_cold_and_that_is_told(tmp_path: Path) -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("needs a tmpfs")
    path = Path("/dev/shm") / f"{tmp_path.name}.gguf"
    try:
        path.write_bytes(tiny_llama_bytes())
        done = run([*CLI, "bench", "load", "-m", str(path), *ONCE, "-q"])
        assert (done.returncode, done.stdout) == (1, "")
        assert "stay in the page cache: a cold start can be measured" in done.stderr
        done = run([*CLI, "bench", "load", "-m", str(path), *ONCE, "-q", "--page-cache", "warm"])
        assert done.returncode == 0 and "load p4 warm" in done.stdout
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-n", "3"), "-n has no place in load: it takes -p, --page-cache"),
        (("--page-cache", "hot"), "--page-cache has 'hot': expected cold or warm, or both"),
        (("--trace", "x"), "--trace has no place in load"),
        (("-p", "99999"), "load p99999 needs 100000 tokens for one request"),
        (("-p", "99999"), "choose fewer (-p)"),
        (("--ab", "all"), "--ab all: these are the hooks of the first"),
        (("-r", "0"), "0 repetitions"),
    ],
)
def test_wrong_usage_exits_with_2_before_anything_is_started(
    tiny_model: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    done = CliRunner().invoke(app, ["bench", "load", "-m", str(tiny_model), *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr


def test_other_workloads_have_no_page_cache_to_choose(tiny_model: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "-m", str(tiny_model), "--page-cache", "cold"])
    assert done.exit_code == 2 and "--page-cache has no place in single" in done.stderr


def test_ctrl_c_ends_the_process_that_starts(model: Path) -> None:
    process = start([*CLI, "bench", "load", "-m", str(model), *ONCE, "-r", "500"])
    assert process.stderr is not None
    while "3/500" not in process.stderr.readline():
        pass
    while not (peers := children(process.pid)):
        time.sleep(0.001)
    out, err = interrupt(process)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err
    assert err.splitlines()[-1] == "interrupted: 0 of 2 workloads are printed"
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in peers), "its end")


def test_a_model_that_changes_between_two_starts_is_an_error(model: Path) -> None:
    process = start([*CLI, "bench", "load", "-m", str(model), *ONCE, "-r", "500"])
    assert process.stderr is not None
    while "2/500" not in process.stderr.readline():
        pass
    model.write_bytes(b"GGUF")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3 and out == ""
    assert "error: the engine failed:" in err and "Traceback" not in err


def test_what_an_engine_refuses_ends_with_its_exit_code(model: Path) -> None:
    done = run([*CLI, "bench", "load", "-m", str(model), *ONCE, "--kv-type", "q8_0"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: the engine failed: the keys of this model are heads of 16" in done.stderr


def test_markdown_has_the_parts_the_rates_and_the_ratios() -> None:
    ours = {
        "process_ms": 90.0, "open_ms": 10.0, "read_ms": 70.0, "upload_ms": 5.0, "weights_ms": 85.0,
        "warmup_ms": 6.0, "first_token_ms": 9.0, "ttft_ms": 100.0, "again_ms": 8.0,
        "peak_bytes": 5e6, "read_bytes_per_s": 2e9, "load_bytes_per_s": 1e9,
        "cached_after_bytes": 0.0, "of_disk": 0.95,
    }  # fmt: skip
    stock = {"weights_ms": 170.0, "warmup_ms": 20.0, "first_token_ms": 10.0, "ttft_ms": 200.0}
    conditions = StartConditions(OneToken(32), "cold", 1, 7)
    settings = {"threads": 2, "chunk_size": 512}
    runs = [ours]
    results = (
        conditions.result({"name": "orin-llm all", **settings}, runs, runs),
        conditions.result({"name": "stock", **settings}, [stock], runs),
        conditions.result({"name": "disk, O_DIRECT"}, [{"read_bytes_per_s": 2.1e9}], runs),
    )
    text = FORMATS["md"](Report(ENVIRONMENT, results))
    parts, sizes, ratios = text.split("\n\n")[2:5]
    assert (
        "|    90.0 | 10.0 | 70.0 |  5.000 |    85.0 |   6.000 |       9.000 | 100.0 | 8.000 |"
        in (parts)
    )
    assert "disk" not in parts and "| 2.10 GB |" in sizes and " 95 % |" in sizes
    assert "orin-llm all over stock |   2.000 | 2.000 |" in ratios
    assert results[0].figures["ttft_ms"] == Spread(100.0, 100.0, 0.0, 100.0, 100.0)
