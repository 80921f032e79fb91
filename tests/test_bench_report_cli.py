"""`orin-llm bench` with pages, pictures and earlier reports, as a shell sees it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest
from processes import CLI, environment, interrupt, run, start
from stub_server import Stub
from typer.testing import CliRunner

from orin_llm.bench.result_file import read_results
from orin_llm.cli.main import app

QUICK = ("-p", "16", "-n", "4", "-r", "2", "-t", "1")


@pytest.fixture(scope="module")
def earlier(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of QUICK."""
    path = tmp_path_factory.mktemp("bench") / "earlier.json"
    path.write_text(bench(tiny_model, *QUICK, "--json"))
    return path


def bench(model: Path, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["bench", "-m", str(model), "-q", *arguments])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_a_report_holds_its_own_against_itself(tiny_model: Path, earlier: Path) -> None:
    found = json.loads(bench(tiny_model, *QUICK, "--json", "--vs", str(earlier)))["versus"]
    (pair,) = found["pairs"]
    assert pair["label"] == "single p16 n4" and pair["differences"] == []
    assert {"ttft_ms", "tpot_ms"} <= {change["figure"] for change in pair["changes"]}
    assert found["conditions"] == found["program"] == []


def test_each_engine_of_a_sweep_is_set_against_its_own_earlier_result(
    tiny_model: Path, tmp_path: Path
) -> None:
    """Each workload's report comes alone, and the comparison is of all of them together."""
    sweep = (*QUICK, "--chunk-size", "16,32", "--json")
    path = tmp_path / "sweep.json"
    path.write_text(bench(tiny_model, *sweep))
    found = json.loads(bench(tiny_model, *sweep, "--vs", str(path)))["versus"]
    assert [pair["differences"] for pair in found["pairs"]] == [[], []]
    assert found["only_before"] == found["only_now"] == []


def test_starts_are_set_against_earlier_starts(tiny_model: Path, tmp_path: Path) -> None:
    load = ("load", "-p", "4", "--page-cache", "warm", "-r", "1", "--warmup", "0", "-t", "1")
    path = tmp_path / "starts.json"
    path.write_text(bench(tiny_model, *load, "--json"))
    out = bench(tiny_model, *load, "-o", "html", "--vs", str(path), "--plot", str(tmp_path / "d"))
    assert "<h2>Before and now</h2>" in out and "first_token_ms" in out
    assert [file.name for file in (tmp_path / "d").iterdir()] == ["start.png"]


def test_the_page_goes_to_stdout_and_the_pictures_to_the_folder(
    tiny_model: Path, tmp_path: Path
) -> None:
    done = CliRunner().invoke(
        app, ["bench", "-m", str(tiny_model), *QUICK[2:], "-p", "8,16", "-o", "html",
              "--plot", str(tmp_path)],
    )  # fmt: skip
    assert done.exit_code == 0
    assert done.stdout.startswith("<!DOCTYPE html>") and done.stdout.endswith("</html>\n")
    names = {path.name for path in tmp_path.iterdir()}
    assert {"ttft-by-prompt-tokens.png", "itl-1.png", "itl-2.png"} <= names
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"pictures: {tmp_path}: ttft-by-prompt-tokens.png, itl-1.png")


def test_a_load_on_a_server_makes_a_page_and_is_set_against_an_earlier_one(tmp_path: Path) -> None:
    load = ("-p", "40", "-n", "4", "--requests", "4", "-np", "1,2,4", "--warmup", "0", "-q")
    with Stub(first_ms=5, gap_ms=2).running_apart() as url:

        def serve(*arguments: str) -> str:
            done = CliRunner().invoke(app, ["bench", "serve", url, *load, *arguments])
            assert done.exit_code == 0, done.stderr
            return done.stdout

        earlier = tmp_path / "earlier.json"
        earlier.write_text(serve("--json"))
        plots = tmp_path / "plots"
        page = serve("-o", "html", "--vs", str(earlier), "--plot", str(plots))
    assert "<h2>Before and now</h2>" in page and "Throughput against concurrency" in page
    assert {"throughput-by-concurrency.png", "itl-3.png"} <= {p.name for p in plots.iterdir()}


def test_what_cannot_be_drawn_or_compared_is_refused_before_anything_is_measured(
    tiny_model: Path, earlier: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(earlier.read_text()[:-20])
    for arguments, code, complaint in (
        (("--vs", "/nope"), 2, "cannot read /nope"),
        (("--vs", str(broken)), 3, "damaged JSON"),
        (("--vs", str(tiny_model)), 3, "it is no text"),
        (("--vs", str(earlier), "-o", "csv"), 2, "--vs has no place in csv"),
        (("--vs", str(earlier), "-p", "17"), 2, "it has single p16 n4"),
        (("--plot", str(earlier)), 2, "this is no directory"),
        (("--plot", "/proc/nope"), 1, "--plot /proc/nope"),
    ):
        done = CliRunner().invoke(app, ["bench", "-m", str(tiny_model), *QUICK, *arguments])
        assert (done.exit_code, done.stdout) == (code, ""), arguments
        assert complaint in done.stderr and "warm-up" not in done.stderr


def test_without_anything_to_draw_with_nothing_is_measured(
    tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("raise ImportError('another numpy')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [*CLI, "bench", "-m", str(tiny_model), *QUICK, "-o"]
    page, table = (
        run([*command, form], env=environment(PYTHONPATH=path)) for form in ("html", "md")
    )
    assert (page.returncode, page.stdout) == (4, "") and "another numpy" in page.stderr
    assert "warm-up" not in page.stderr
    assert table.returncode == 0


def test_a_page_is_not_written_on_a_terminal(tiny_model: Path) -> None:
    main, terminal = os.openpty()
    command = [*CLI, "bench", "-m", str(tiny_model), *QUICK, "-o", "html"]
    done = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, env=environment())
    os.close(terminal)
    os.close(main)
    assert done.returncode == 2 and b"send it to a file" in done.stderr


def test_ctrl_c_draws_and_prints_what_had_ended(smollm2: Path, tmp_path: Path) -> None:
    lengths = ("-p", "8", "-n", "4,2000", "-r", "2", "--warmup", "0", "-t", "1")
    process = start([*CLI, "bench", "-m", str(smollm2), *lengths, "--plot", str(tmp_path)])
    assert process.stderr is not None
    while "n2000" not in (line := process.stderr.readline()):
        assert line, "it has ended"
    out, err = interrupt(process)
    assert process.returncode == 130 and "Traceback" not in err
    assert "| single p8 n4 |" in out and "itl-1.png" in err
    assert (tmp_path / "itl-1.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_that_cannot_be_written_lose_no_result(tiny_model: Path, tmp_path: Path) -> None:
    """Files of at most 4 KiB: as a full disk, and there is no part of a picture."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    command = [*CLI, "bench", "-m", str(tiny_model), *QUICK, "--plot", str(tmp_path), "-q"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), preexec_fn=limit
    )
    assert done.returncode == 1 and "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    assert "| single p16 n4 |" in done.stdout and list(tmp_path.iterdir()) == []


def test_json_of_a_real_run_is_read_again(earlier: Path) -> None:
    found = read_results(earlier)
    (result,) = found.results
    assert result.label == "single p16 n4" and len(result.repeated["ttft_ms"]) == 2
    assert sum(result.itl_histogram.counts) == 6  # three gaps in each of two repetitions


def shown(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["bench", "show", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_report_is_shown_again_as_it_was_in_every_form(earlier: Path, tmp_path: Path) -> None:
    assert shown(str(earlier), "--json") == (0, earlier.read_text(), "")
    lines = tmp_path / "report.jsonl"
    lines.write_text(shown(str(earlier), "-o", "jsonl")[1])
    for layout in ("md", "csv", "jsonl", "html"):
        code, out, err = shown(str(earlier), "-o", layout)
        assert (code, err) == (0, "") and "single p16 n4" in out
        assert shown(str(lines), "-o", layout)[1] == out
    code, out, err = shown(str(earlier), "--vs", str(lines), "--plot", str(tmp_path / "plots"))
    assert code == 0 and "| not significant |" in out and "itl-1.png" in err


def test_a_report_that_cannot_be_shown_is_an_error(earlier: Path, tmp_path: Path) -> None:
    good = json.loads(earlier.read_text())
    used = good["results"][0]["kv"]["peak_bytes_used"]
    broken = tmp_path / "broken.json"
    for path, value, complaint in (
        (("model",), 5, "model is 5: expected an object"),
        (("machine", "cores"), None, "machine.cores is None"),
        (("stamp",), {"gpu_cap_mhz": "x"}, "stamp.gpu_cap_mhz is 'x'"),
        (("results", 0, "engine", "threads"), [1], "missing or damaged (unhashable"),
        (("results", 0, "kv"), {"peak_bytes_used": {}}, "kv.peak_bytes_used.median is missing"),
        (("results", 0, "kv"), {"peak_bytes_used": used}, "missing or damaged ('"),
    ):
        tree = json.loads(json.dumps(good))
        place = tree
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        broken.write_text(json.dumps(tree))
        code, out, err = shown(str(broken))
        assert (code, out) == (3, "") and complaint in err, path
