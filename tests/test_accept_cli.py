"""`orin-llm accept` as a program: what it prints, keeps and ends with."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree as xml

import numpy as np
import pytest
from accept_support import limits_file
from fakes import boards
from gguf_bytes import Shape, tiny_llama
from processes import CLI, environment, run, start

QUICK = """
[[limits]]
model = "tiny.gguf"
ttft_std_ms = 1e6
tpot_growth_ms = 1e6
prefill_gpu_percent = 85
memory_percent = 90
requests_per_s = 1e-6
[shape.ttft]
requests = 5
prompt_tokens = 32
[shape.growth]
requests = 2
prompt_tokens = 16
max_tokens = 64
[shape.load]
prompt_tokens = 200
[shape.pages]
streams = 2
[shape.perplexity]
windows = 2
window_tokens = 64
[shape.throughput]
requests = 16
batch = 8
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama(shape=Shape(n_ctx=512)).data)
    return path


def command(model: Path, *arguments: str) -> list[str]:
    limits = limits_file(model.parent, QUICK)
    return [*CLI, "accept", "-m", str(model), "-t", "1", "--thresholds", str(limits), *arguments]


@pytest.fixture
def on_board(tmp_path: Path) -> tuple[dict[str, str], str]:
    """Variables and the root of an AGX Orin whose GPU is at 92 %."""
    machine = boards.jetson(tmp_path / "board", boards.AGX_64_JP6)
    return environment(PATH=machine.path), str(machine.root)


def test_on_a_board_with_a_reference_all_seven_pass(
    model: Path, tmp_path: Path, on_board: tuple[dict[str, str], str]
) -> None:
    env, root = on_board
    reference = tmp_path / "reference.gguf"
    reference.write_bytes(model.read_bytes())
    evidence = tmp_path / "evidence"
    done = run(
        command(
            model, "--root", root, "--reference", str(reference), "--evidence", str(evidence)
        ),
        env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("accepted: 7 passed\n")
    assert "p3701-0005" in done.stdout and "MODE_30W" in done.stdout
    assert "7 throughput: measuring\n7 throughput: passed" in done.stderr
    report = json.loads((evidence / "accept.json").read_text())
    assert (report["accepted"], report["stamp"]["module"]) == (True, "p3701-0005")
    assert len(list(xml.parse(evidence / "accept.xml").iter("testcase"))) == 7
    judged_again(evidence)


def judged_again(evidence: Path) -> None:
    """Every figure, from the raw evidence, in NumPy."""
    found = {path.stem[2:]: json.loads(path.read_text()) for path in evidence.glob("?-*.json")}
    raw = {name: one["raw"] for name, one in found.items()}

    def requests(name: str) -> list[dict[str, list[float] | float]]:
        return [request for run in raw[name]["runs"] for request in run["requests"]]

    ttft = [np.array(r["token_ms"])[0] - r["submitted_ms"] for r in requests("ttft")]
    gaps = np.diff([r["token_ms"] for r in requests("growth")], axis=1)
    kv = [run["kv"] for run in raw["pages"]["runs"]]
    lookups, misses = (sum(use[name] for use in kv) for name in ("lookups", "misses"))
    steps = [step for run in raw["pages"]["runs"] for step in run["steps"]]
    assert sum(step["kv_lookups"] for step in steps) == lookups
    assert sum(step["kv_misses"] for step in steps) == misses
    ends = [(r["submitted_ms"], r["finished_ms"]) for r in requests("throughput")]
    counters = raw["rope"]["counters"]
    again = {
        "ttft_std_ms": np.std(ttft, ddof=1),
        "tpot_growth_ms": gaps[:, -31:].mean() - gaps[:, :31].mean(),
        "prefill_gpu_percent": 92.0,
        "memory_percent": 100 * (62841 // 4) / 62841,
        "hit_rate_percent": 100 * (1 - misses / lookups),
        "rope_out_of_bounds": counters["out_of_bounds"] + counters["fallbacks"],
        "ppl_ratio": np.exp(
            np.mean(raw["perplexity"]["nlls"]) - np.mean(raw["perplexity"]["reference_nlls"])
        ),
        "requests_per_s": 16e3 / (np.max(ends) - np.min(ends)),
    }
    for one in found.values():
        for check in one["checks"]:
            assert check["value"] == pytest.approx(again[check["name"]], rel=1e-6), check["name"]


def test_without_a_gpu_or_a_reference_these_are_not_measurable_and_the_exit_code_is_4(
    model: Path, tmp_path: Path
) -> None:
    machine = boards.pc(tmp_path / "pc")
    env = environment(PATH=machine.path)
    done = run(command(model, "--only", "3,4,6", "--root", str(machine.root), "--json"), env=env)
    assert done.returncode == 4
    said = json.loads(done.stdout)
    assert [one["status"] for one in said["indicators"]] == [
        "not measurable", "passed", "not measurable",
    ]  # fmt: skip
    reasons = [check["reason"] for one in said["indicators"] for check in one["checks"]]
    assert "build with CUDA" in reasons[0]
    assert "--reference" in reasons[-1]
    arguments = ("--only", "4,6", "--allow-unmeasured", "-q", "-o", "junit", str(model))
    allowed = run(command(model, *arguments), env=env)
    assert (allowed.returncode, allowed.stderr) == (0, "")
    assert xml.fromstring(allowed.stdout)[0].get("skipped") == "1"


def test_a_reference_of_another_vocabulary_is_no_fault_of_the_model(
    model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_llama(shape=Shape(n_ctx=512, n_vocab=400)).data)
    done = run(command(model, "--only", "6", "--reference", str(other)))
    assert done.returncode == 4
    assert "only models with one vocabulary can be compared" in done.stdout


def test_an_indicator_that_fails_ends_with_1_and_says_by_how_much(model: Path) -> None:
    done = run(command(model, "--only", "pages", "--hit-rate", "99.9"))
    assert done.returncode == 1
    assert "page hit rate: 99.43 % (limit ≥ 99.9 %)" in done.stdout
    assert done.stdout.endswith("not accepted: 1 failed\n")


def test_without_a_limit_for_the_machine_and_model_nothing_is_judged(model: Path) -> None:
    named = model.rename(model.with_name("other.gguf"))
    done = run(command(named, "--only", "1"))
    assert done.returncode == 4
    assert "not judged" in done.stdout
    assert "no limit is set for" in done.stdout and "other.gguf" in done.stdout


def test_ctrl_c_keeps_what_was_measured_and_says_what_was_not(model: Path, tmp_path: Path) -> None:
    """Also where the model's file is gone by then."""
    slow = QUICK.replace("requests = 2\n", "requests = 10000\n")
    evidence = tmp_path / "evidence"
    arguments = command(model, "--only", "1,2,5", "--evidence", str(evidence))
    limits_file(tmp_path, slow)
    process = start(arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("1 ttft: passed"):
            break
    model.unlink()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.endswith("interrupted: 1 passed, 2 not measurable\n")
    assert out.count("the check was ended before") == 2
    assert sorted(path.name for path in evidence.iterdir()) == [
        "1-ttft.json", "accept.json", "accept.md", "accept.xml",
    ]  # fmt: skip
    assert json.loads((evidence / "accept.json").read_text())["interrupted"] is True


WRONG = {
    "no such indicator": (["--only", "8"], 2, "no indicator 8"),
    "no such format": (["-o", "html"], 2, "no output format 'html'"),
    "two formats": (["--json", "-o", "md"], 2, "contradict"),
    "two references": (["--reference", "a", "--logits", "b"], 2, "leave one out"),
    "no reference": (["--reference", "gone.gguf"], 3, "no such file"),
    "no logits": (["--logits", "gone"], 1, "cannot read gone"),
    "text with logits": (["--logits", __file__, "-f", __file__], 2, "no use here"),
    "a limit that is none": (["--ttft-std", "nan"], 2, "ttft_std_ms is nan"),
    "two models": (["other.gguf"], 2, "are two models: name one"),
    "no room": (["-c", "64"], 2, "shape.growth needs 80 tokens"),
    "evidence in a file": (["--evidence", __file__], 2, "no folder"),
}


@pytest.mark.parametrize(("arguments", "code", "said"), WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_told_before_anything_is_loaded(
    model: Path, arguments: list[str], code: int, said: str
) -> None:
    done = run(command(model, *arguments))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_quantized_reference_and_the_model_itself_are_refused(model: Path, smollm2: Path) -> None:
    same = run(command(model, "--reference", str(model)))
    assert (same.returncode, "itself" in same.stderr) == (2, True)
    quantized = run(command(model, "--reference", str(smollm2)))
    assert (quantized.returncode, "is Q4_1: what quantizing" in quantized.stderr) == (2, True)


def test_evidence_that_finds_no_room_ends_no_check(model: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    arguments = command(model, "--only", "4,5", "-q", "--evidence", str(evidence))
    small = ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", *arguments]  # files of 8 kB at most
    done = run(small)
    assert done.returncode == 1
    assert done.stdout.endswith("accepted: 2 passed\n")
    assert "error: not all evidence is there: cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert {path.name for path in evidence.iterdir()} >= {"accept.json", "accept.md"}


def test_a_full_disk_where_the_answer_goes_loses_no_evidence(model: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    arguments = command(model, "--only", "4", "-q", "--evidence", str(evidence))
    with open("/dev/full", "w") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "No space left" in done.stderr) == (1, True)
    assert json.loads((evidence / "accept.json").read_text())["accepted"] is True


def test_a_name_that_is_no_text_and_a_narrow_stdout_lose_nothing(
    model: Path, tmp_path: Path
) -> None:
    named = model.rename(model.with_name("b\udcff\N{EN DASH}d.gguf"))
    evidence = tmp_path / "evidence"
    arguments = command(named, "--only", "4", "-q", "-o", "md", "--evidence", str(evidence))
    done = run(arguments, env=environment(PYTHONIOENCODING="ascii"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "model b??d" in done.stdout and done.stdout.isascii()
    assert "model b?\N{EN DASH}d" in (evidence / "accept.md").read_text(encoding="utf-8")
    assert {"accept.json", "accept.xml"} <= {path.name for path in evidence.iterdir()}
