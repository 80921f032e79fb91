"""`orin-llm imatrix` as a stranger uses it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from imatrix_cases import legacy, random_experts, small, small_image
from processes import CLI, environment, interrupt, start
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.quality.imatrix_file import read_imatrix, write_imatrix

TEXT = "the cat sat on a mat and had a look at the day. " * 60


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command in this process, which is quicker than one of its own."""
    words = [str(argument) for argument in arguments]
    done = CliRunner().invoke(app, ["imatrix", *words], env={"COLUMNS": "80"})
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_a_matrix_is_collected_and_described(tiny_model: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "i.gguf"
    done = run(tiny_model, "-f", text, "-o", out, "-c", "64", "--chunks", "3", "-ngl", "0")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^blk\.\d\.attn_[kqv], attn_[kqv], attn_[kqv] ", done.stdout, re.M)
    assert f"{out}: 3 windows of 64 tokens of {text}" in done.stdout
    matrix = read_imatrix(out)
    assert (matrix.chunk_count, matrix.chunk_size, matrix.datasets) == (3, 64, (str(text),))


def test_json_is_one_object_with_every_tensor(tiny_model: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "i.gguf"
    flags = ["-c", "64", "--chunks", "3", "-ngl", "0", "--json"]
    done = run(tiny_model, "-f", text, "-o", out, *flags)
    result = json.loads(done.stdout)
    assert (result["file"], result["file_bytes"]) == (str(out), out.stat().st_size)
    assert (result["windows"], result["windows_total"], result["chunk_size"]) == (3, 3, 64)
    assert result["elapsed_ms"] > 0 and result["tokens_per_s"] > 0
    assert (result["device"], result["text"]) == ("cpu", str(text))
    assert len(result["tensors"]) == 14 and {one["tokens"] for one in result["tensors"]} == {192}
    totals = [one["total"] for one in result["tensors"]]
    assert totals == sorted(totals, reverse=True)


def test_experts_that_no_token_reached_are_named(text: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "experts.gguf", tmp_path / "i.gguf"
    model.write_bytes(random_experts(n_expert=64).data)
    done = run(model, "-f", text, "-o", out, "-c", "32", "--chunks", "1", "-ngl", "0")
    assert done.returncode == 0, done.stderr
    words = r"in 6 tensors there are experts that no token went to, in blk\.\d\.ffn_\S+ \d+ of 64"
    assert re.search(words, done.stdout)


def test_files_are_put_together_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(small_image().data)
    (tmp_path / "b.dat").write_bytes(legacy({"blk.0.ffn_up.weight": ([1.0] * 4, 2)}, text="b.txt"))
    out = tmp_path / "both.gguf"
    files = ["--in-file", tmp_path / "a.gguf", "--in-file", tmp_path / "b.dat"]
    done = run(*files, "-o", out)
    assert done.returncode == 0, done.stderr
    assert "5 windows of a.txt, b.txt" in done.stdout  # of 512 tokens, as the first file has them
    assert "in blk.0.ffn_up_exps.weight 1 of 3" in done.stdout
    assert read_imatrix(out).entries["blk.0.ffn_up.weight"].counts.tolist() == [1536 + 1024]
    again = json.loads(run(*files, "-o", out, "--force", "--json").stdout)
    assert (again["chunk_count"], again["texts"]) == (5, ["a.txt", "b.txt"])


def test_a_collection_adds_to_files(tiny_model: Path, text: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "1.gguf", tmp_path / "2.gguf"
    flags = ["-f", text, "--chunks", "2", "-ngl", "0", "-q"]
    assert run(tiny_model, *flags, "-c", "64", "-o", one).returncode == 0
    done = run(tiny_model, *flags, "--in-file", one, "-o", two)
    assert done.returncode == 0, done.stderr
    matrix = read_imatrix(two)
    assert (matrix.chunk_count, matrix.chunk_size) == (4, 64)  # windows as the file has them
    assert matrix.datasets == (str(text), str(text))


def test_what_cannot_be_is_refused_before_the_model_is_loaded(
    tiny_model: Path, text: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there.gguf"
    there.write_bytes(b"mine")
    absent = tmp_path / "absent.gguf"
    narrow = tmp_path / "narrow.gguf"
    write_imatrix(narrow, replace(small(), chunk_size=4))
    model = [str(tiny_model), "-f", str(text), "-ngl", "0"]
    cases: list[tuple[list[str], int, str]] = [
        ([], 2, "name a model"),
        (["-f", str(text), "--in-file", str(there)], 2, "need a model"),
        ([*model, "-o", str(there)], 2, "exists; pass --force"),
        ([*model, "-o", str(tmp_path)], 2, "is a directory"),
        ([*model, "-o", "/nowhere/i.gguf"], 2, "does not exist"),
        ([*model, "-o", str(absent), "--resume"], 2, "no file"),
        ([*model, "-o", str(there), "--resume", "--force"], 2, "choose one"),
        ([*model, "-o", str(there), "--resume", "--in-file", str(there)], 2, "--resume goes on"),
        ([*model, "-o", str(there), "--resume"], 3, "not an importance matrix"),
        ([*model, "-o", str(absent), "--in-file", str(there)], 3, "not an importance matrix"),
        ([*model, "-o", str(absent), "-c", "8"], 2, "-c"),
        ([*model, "-o", str(tiny_model), "--force"], 2, "is the model itself"),
        ([*model, "-o", str(absent), "--in-file", str(narrow)], 2, "have windows of 4 tokens"),
        ([*model, "-o", str(absent), "--chunks", "0"], 2, "--chunks"),
        ([*model, "-o", str(absent), "-c", "100000"], 2, "less than one window"),
        ([str(text), "-o", str(absent)], 3, str(text)),
        ([str(tiny_model), "-f", str(absent), "-o", str(absent)], 1, "cannot read"),
    ]
    for arguments, code, message in cases:
        done = run(*arguments)
        words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stderr).split())
        assert (done.returncode, message in words) == (code, True), (arguments, done.stderr)
        assert done.stdout == ""
    assert there.read_bytes() == b"mine" and not absent.exists()


def test_a_folder_that_takes_no_files_is_refused_before_the_work(
    tiny_model: Path, text: Path
) -> None:
    done = run(tiny_model, "-f", text, "-o", "/proc/self/i.gguf", "-ngl", "0")
    assert done.returncode == 1 and "cannot write /proc/self/i.gguf" in done.stderr
    assert "window" not in done.stderr


def test_a_disk_without_room_for_the_file_is_refused_before_the_work(
    tiny_model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.host.disk.SPARE_BYTES", 1 << 60)
    done = run(tiny_model, "-f", text, "-o", tmp_path / "i.gguf", "-ngl", "0")
    assert done.returncode == 1 and "not enough room" in done.stderr
    assert "not saved" not in done.stderr


def test_a_collection_of_another_text_is_not_gone_on_with(
    tiny_model: Path, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "i.gguf"
    flags = ["-o", out, "-c", "64", "-ngl", "0", "-q"]
    assert run(tiny_model, "-f", text, *flags, "--chunks", "1").returncode == 0
    before = out.read_bytes()
    text.write_text(TEXT.replace("cat", "dog"))
    done = run(tiny_model, "-f", text, *flags, "--resume")
    assert done.returncode == 2 and "another text" in done.stderr
    assert out.read_bytes() == before


def test_control_tokens_are_read_as_such_when_asked(tiny_model: Path, tmp_path: Path) -> None:
    marked, sums = tmp_path / "marked.txt", []
    marked.write_text("</s>" * 200)
    for flags in ([], ["--parse-special"]):
        out = tmp_path / f"{len(flags)}.gguf"
        done = run(tiny_model, "-f", marked, "-o", out, "-c", "64", "--chunks", "1", *flags, "-q")
        assert done.returncode == 0, done.stderr
        sums.append(read_imatrix(out).entries["blk.0.attn_q.weight"].sums)
    assert (sums[0] != sums[1]).any()


def test_ctrl_c_keeps_what_was_read_and_resume_reads_the_rest(
    tiny_model: Path, tmp_path: Path
) -> None:
    text, out, whole = tmp_path / "long.txt", tmp_path / "i.gguf", tmp_path / "whole.gguf"
    text.write_text(TEXT * 400)
    command = [str(tiny_model), "-f", str(text), "-c", "512", "-ngl", "0", "-t", "1"]
    process = start([*CLI, "imatrix", *command, "-o", str(out), "-ofreq", "1"], env=environment())
    while not out.exists():
        assert process.poll() is None
        time.sleep(0.01)
    _, stderr = interrupt(process)
    assert process.returncode == 130, stderr
    assert re.search(r"stopped after \d+ of \d{3,} windows, which are in .*--resume", stderr)
    assert [path for path in tmp_path.iterdir() if path.name.endswith(".part")] == []
    found = read_imatrix(out).collected
    assert found is not None and 1 <= found.windows_done < found.windows_total
    more = ["--chunks", str(found.windows_done + 2)]
    done = run(*command, *more, "-o", out, "--resume")
    assert done.returncode == 0, done.stderr
    assert f"{found.windows_done + 2} windows of 512 tokens" in done.stdout
    assert "2 of them in this run" in done.stdout
    assert run(*command, *more, "-o", whole).returncode == 0
    assert out.read_bytes() == whole.read_bytes()


def test_a_finished_file_is_left_as_it_is(tiny_model: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "i.gguf"
    command = [tiny_model, "-f", text, "-c", "64", "-ngl", "0", "-o", out]
    assert run(*command).returncode == 0
    before = out.read_bytes()
    done = run(*command, "--resume")
    assert done.returncode == 0 and "nothing was left to read" in done.stdout
    assert out.read_bytes() == before
    write_imatrix(out, read_imatrix(out), force=True)
    assert out.read_bytes() == before
