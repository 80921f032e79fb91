"""`scripts/gpu_check.sh`, for real on the CPU, and where GPU and tools are stand-ins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.cuda.driver import compile_driver
from processes import environment

from checking.steps import StepFailed
from gpu_check import machine
from gpu_check.checks import SLOW_TESTS, kernel_tests, sanitizer
from gpu_check.steps import Context
from orin_llm.errors import DeviceUnavailable

ROOT = Path(__file__).resolve().parent.parent
FAKES = Path(__file__).parent / "fakes/gpu_check"
SCRIPT = str(ROOT / "scripts/gpu_check.sh")


def variables(*programs: Path, **more: str) -> dict[str, str]:
    """A machine that has these programs beside the system's, and this Python."""
    path = os.pathsep.join(map(str, (*programs, Path(sys.executable).parent, "/usr/bin", "/bin")))
    return environment(PATH=path, PYTHON=sys.executable, **more)


def check(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments], env=env, capture_output=True, text=True, timeout=900, check=False
    )


def only(folder: Path, *names: str) -> Path:
    """A folder with some of the stand-ins."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(FAKES / name)
    return folder


@pytest.mark.parametrize(
    ("programs", "settings", "said"),
    [
        ((), {}, ["no NVIDIA GPU is found", "--device cpu"]),
        (("nvidia-smi", "nvcc"), {"FAKE_GPU_NONE": "1"}, ["no NVIDIA GPU is found"]),
        (
            ("nvidia-smi", "nvcc"),
            {"FAKE_NVCC_LACKS": "cublas_v2.h"},
            ["no usable cuBLAS", "libcublas-dev-12-6"],
        ),
        (
            ("nvidia-smi", "nvcc"),
            {"ORIN_LLM_CUDA_ARCH": "75"},
            ["cannot be checked", "ORIN_LLM_CUDA_ARCH=75: expected 80 or newer"],
        ),
    ],
)
def test_what_is_missing_is_said_before_anything_is_done(
    tmp_path: Path, programs: tuple[str, ...], settings: dict[str, str], said: list[str]
) -> None:
    folder = only(tmp_path / "bin", *programs)
    out = tmp_path / "r.json"
    done = check("--out", str(out), env=variables(folder, **settings))
    assert done.returncode == 4
    for words in said:
        assert words in done.stderr
    assert not out.exists()


def test_why_a_gpu_cannot_be_used_is_said_beside_that_none_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    why = "no NVIDIA GPU can be used here: nvidia-smi has not ended in 15 s"
    for name, answer in (("query_gpu", {}), ("_ask_cuda", {}), ("_cuda_problem", why)):
        monkeypatch.setattr(machine, name, lambda answer=answer: answer)
    with pytest.raises(DeviceUnavailable, match=rf"no NVIDIA GPU is found .*\n  {why}"):
        machine.require_gpu()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "nonsense"], "no step 'nonsense'"),
        (["--models", "70b"], "no model 70b: there are 1b, 8b, tiny"),
        (["--minutes", "0"], "--minutes 0: expected more than 0"),
        (["--report", "/dev/null"], "/dev/null is no file of results"),
    ],
)
def test_wrong_usage_is_told(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = check("--device", "cpu", "--out", str(tmp_path / "r"), *arguments, env=variables())
    assert done.returncode == 2 and said in done.stderr


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A GPU with 132 multiprocessors, CUDA and MPS."""
    driver = compile_driver(tmp_path_factory.mktemp("driver"))
    log = tmp_path_factory.mktemp("mps") / "log"
    return variables(FAKES, LD_LIBRARY_PATH=str(driver), FAKE_MPS_LOG=str(log), FAKE_CUDA_GB_S="80")


def entries(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.read_text())
    return found


BANDWIDTH = ("--only", "environment", "--only", "bandwidth", "--only", "proxy.bandwidth")


def test_the_gpu_is_described_and_its_copies_are_measured_whole_and_confined(
    tmp_path: Path, gpu: dict[str, str]
) -> None:
    out = tmp_path / "r.json"
    done = check("--out", str(out), *BANDWIDTH, env=gpu)
    assert done.returncode == 0, done.stderr
    found = entries(out)
    facts = found["steps"]["environment"]["result"]
    assert facts["gpu"]["name"] == "NVIDIA Test GPU" and "power.limit" not in facts["gpu"]
    assert (facts["multiprocessors"], facts["cuda"]) == (132, "12.6")
    assert facts["tools"]["compute-sanitizer"] == str(FAKES / "compute-sanitizer")
    assert found["of"]["device"] == "GPU-1234"
    assert found["steps"]["bandwidth"]["result"]["copy_gb_s"] == pytest.approx(80, rel=0.01)
    assert found["proxy"] == {
        "percentage": 13, "multiprocessors": 16, "wanted": 16, "of": 132
    }  # fmt: skip
    log = Path(gpu["FAKE_MPS_LOG"]).read_text()
    assert log.split() == ["-d", "quit"]
    report = check("--report", str(out), env=gpu).stdout
    assert "Copies on the proxy: 80 GB/s" in report and "NVIDIA Test GPU" in report


def test_a_board_whose_system_has_no_nvidia_smi_is_known_by_its_driver(
    tmp_path: Path, gpu: dict[str, str]
) -> None:
    path = variables(only(tmp_path / "bin", "nvcc"))["PATH"]
    out = tmp_path / "r.json"
    env = {**gpu, "PATH": path, "ORIN_LLM_CUDA_ARCH": "87-real"}
    done = check("--out", str(out), "--only", "environment", env=env)
    assert done.returncode == 0, done.stderr
    facts = entries(out)["steps"]["environment"]["result"]
    assert facts["gpu"]["compute_cap"] == "8.7" and facts["gpu"]["name"]
    assert facts["doctor"]["build"]["version"] and entries(out)["of"]["device"]


@pytest.mark.parametrize("how", ["fails", "missing"])
def test_without_mps_the_proxy_is_skipped_and_the_rest_is_done(
    tmp_path: Path, gpu: dict[str, str], how: str
) -> None:
    names = ["nvidia-smi", "nvcc"] + (["nvidia-cuda-mps-control"] if how == "fails" else [])
    path = variables(only(tmp_path / "bin", *names))["PATH"]
    env = {**gpu, "PATH": path, "FAKE_MPS_FAILS": "1"}
    done = check("--out", str(tmp_path / "r.json"), *BANDWIDTH, env=env)
    assert done.returncode == 1
    found = entries(tmp_path / "r.json")["steps"]
    assert found["bandwidth"]["status"] == "done"
    assert found["proxy.bandwidth"]["status"] == "skipped"
    said = {"fails": "MPS does not start", "missing": "no MPS: nvidia-cuda-mps-control"}[how]
    assert said in found["proxy.bandwidth"]["error"]


def test_a_driver_that_fails_is_told(tmp_path: Path, gpu: dict[str, str]) -> None:
    env = {**gpu, "FAKE_CUDA_FAIL": "cuInit:999"}
    out = tmp_path / "r.json"
    check("--out", str(out), "--only", "environment", "--only", "bandwidth", env=env)
    for name in ("environment", "bandwidth"):
        entry = entries(out)["steps"][name]
        assert entry["status"] == "failed" and "cuInit" in entry["error"]


def test_another_gpu_needs_another_file(tmp_path: Path, gpu: dict[str, str]) -> None:
    arguments = ("--out", str(tmp_path / "r.json"), "--only", "environment")
    assert check(*arguments, env=gpu).returncode == 0
    done = check(*arguments, env={**gpu, "FAKE_GPU_UUID": "5678"})
    assert done.returncode == 2 and "GPU-1234" in done.stderr and "GPU-5678" in done.stderr


SUMMARIES = {
    "memcheck": "========= ERROR SUMMARY: {} errors",
    "racecheck": "========= RACECHECK SUMMARY: 2 hazards displayed ({} errors, 0 warnings)",
}


def sanitized(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tool: str, says: str, status: int = 0
) -> dict[str, Any]:
    monkeypatch.setenv("PATH", f"{FAKES}:{os.environ['PATH']}")
    for name, value in (("SAYS", says), ("STATUS", str(status)), ("LOG", str(folder / "log"))):
        monkeypatch.setenv(f"FAKE_SANITIZER_{name}", value)
    return sanitizer(tool, Context(folder, tool, time.monotonic() + 60))


@pytest.mark.parametrize("tool", SUMMARIES)
def test_a_sanitizer_is_given_the_small_tests_of_all_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    two = "\\n".join([SUMMARIES[tool].format(0)] * 2)
    assert sanitized(tmp_path, monkeypatch, tool, two) == {"errors": 0, "processes": 2}
    given = (tmp_path / "log").read_text()
    assert f"--tool {tool} --target-processes all" in given and "-m gpu" in given
    assert all(test in given for test in kernel_tests())


@pytest.mark.parametrize("tool", SUMMARIES)
@pytest.mark.parametrize(
    ("says", "status", "said"),
    [("{summary}", 99, "3 errors"), ("Device not supported", 0, "has not come"), ("", 1, "status")],
)
def test_errors_and_a_missing_summary_are_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, says: str, status: int, said: str
) -> None:
    text = says.format(summary=SUMMARIES[tool].format(3))
    with pytest.raises(StepFailed, match=said):
        sanitized(tmp_path, monkeypatch, tool, text, status)


def test_the_sanitizers_leave_out_tests_that_there_are() -> None:
    names = [
        line.split("(")[0].removeprefix("def ")
        for path in kernel_tests()
        for line in (ROOT / path).read_text().splitlines()
        if line.startswith("def test_")
    ]
    for word in SLOW_TESTS:
        assert any(word in name for name in names), word
    assert sum(any(word in name for word in SLOW_TESTS) for name in names) < len(names) / 2


@dataclass(frozen=True)
class Rehearsal:
    """What a first call, ended by Ctrl-C, and a second one have left."""

    command: list[str]
    out: Path
    interrupted: dict[str, Any]
    second: subprocess.CompletedProcess[str]
    steps: dict[str, Any]


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    out = tmp_path_factory.mktemp("rehearsal") / "r.json"
    command = ["--device", "cpu", "--commit", "abc", "--out", str(out)]
    process = subprocess.Popen(
        [SCRIPT, *command], env=variables(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("decode.tiny:"):
            break
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130 and "the same command goes on from here" in said
    interrupted = entries(out)["steps"]
    second = check(*command, "--minutes", "30", env=variables())
    return Rehearsal(command, out, interrupted, second, entries(out)["steps"])


def test_ctrl_c_keeps_what_was_done_and_the_next_call_goes_on(rehearsal: Rehearsal) -> None:
    before = rehearsal.interrupted
    assert before["environment"]["status"] == "done"
    assert before["decode.tiny"]["status"] == "interrupted" and "growth.tiny" not in before
    assert rehearsal.second.returncode == 0, rehearsal.second.stderr
    assert "environment:" not in rehearsal.second.stderr
    assert {entry["status"] for entry in rehearsal.steps.values()} == {"done"}
    assert rehearsal.steps["environment"] == before["environment"]


def test_a_rehearsal_measures_a_tiny_model_with_hooks_on_and_off(rehearsal: Rehearsal) -> None:
    decode = rehearsal.steps["decode.tiny"]["result"]["results"]
    assert [one["workload"]["depth"] for one in decode] == [0, 0, 64, 64]
    assert decode[0]["engine"]["hooks"]["attention"] == "on"
    assert decode[1]["engine"]["hooks"]["attention"] == "off"
    assert len(rehearsal.steps["growth.tiny"]["result"]["itl_ms"][0]) == 511
    greedy = rehearsal.steps["greedy"]["result"]
    assert greedy["agrees"] is True and greedy["stock"]["prompts"] == 5
    report = check("--report", str(rehearsal.out), env=variables()).stdout
    assert "| tiny decode: single p16 n16 d64 |" in report and "rehearsal" in report


def found_in(rehearsal: Rehearsal, step: str) -> Any:
    return rehearsal.steps[step]["result"]


def test_a_rehearsal_measures_batches_chunks_and_quantized_kv(rehearsal: Rehearsal) -> None:
    batches = found_in(rehearsal, "batches.tiny")["results"]
    assert [one["engine"]["name"] for one in batches] == ["orin-llm all", "llama.cpp, batched"]
    assert batches[1]["speedup"]["decode_tokens_per_s"]["median"] > 0
    chunks = found_in(rehearsal, "chunks.tiny")["results"]
    assert [one["engine"]["chunk_size"] for one in chunks] == [32, 32, 64, 64]
    paths = found_in(rehearsal, "paths.tiny")["results"]
    assert len(paths) == 4 * 2 * 2 and len({one["path"] for one in paths}) == 4
    quantized = found_in(rehearsal, "quantized.tiny")["results"]
    assert {one["engine"]["kv_type"] for one in quantized} == {"q8_0"}
    matrices = found_in(rehearsal, "matrices.tiny")["results"]
    assert matrices[1]["engine"]["hooks"]["matrices"] == "off"


def test_a_rehearsal_times_every_kernel_of_the_emulation(rehearsal: Rehearsal) -> None:
    found = found_in(rehearsal, "kernel_times")
    assert {(one["kind"], one["tokens"]) for one in found["timings"]} == {
        ("vector", 1), ("vector", 2), ("product", 2), ("product", 16),
        ("attention", 1), ("prompt", 4), ("rows", 1),
    }  # fmt: skip
    assert all(min(one["us"]) > 0 for one in found["timings"])
    assert "vector_tokens_q4_K=" in found["choices"] and "vector_rows=" in found["choices"]
    report = check("--report", str(rehearsal.out), env=variables()).stdout
    assert "| tiny gate+up | 0.0 |" in report and "| tiny down, 2 |" in report


def test_a_rehearsal_compares_errors_and_perplexities(rehearsal: Rehearsal) -> None:
    errors = found_in(rehearsal, "errors")["errors"]
    names = {one["name"] for one in errors}
    assert names >= {"q4_K ×1, vector", "q4_K ×2, product", "f16 ×1, vector", "q6_K ×1, vector"}
    assert all(0 < one["ours"] < 0.03 and one["stock"] < 0.03 for one in errors)
    perplexity = found_in(rehearsal, "perplexity")
    assert perplexity["tokens"] == 254 and abs(perplexity["difference"]) < 0.1


def test_when_all_is_done_nothing_is_done_again(rehearsal: Rehearsal) -> None:
    again = check(*rehearsal.command, env=variables())
    assert again.returncode == 0 and again.stderr == f"written: {rehearsal.out}\n"
    assert entries(rehearsal.out)["steps"] == rehearsal.steps
