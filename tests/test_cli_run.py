"""`orin-llm run` as a shell sees it: real processes, the real default model."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from gguf_bytes import Shape, tiny_llama
from processes import CLI, environment, interrupt, read_some
from processes import run as run_process
from processes import start as start_process
from stats_support import until

PROMPT = "What is the capital of France?"
TEXT = "The capital of France is"
STORY = ("-p", "Write a very long story about the sea.", "-c", "8192")
# Before Python has started, the signal itself ends the process: a shell calls both 130.
INTERRUPTED = (130, -signal.SIGINT)


class Runner:
    """Runs the command on a model, greedily unless told otherwise."""

    def __init__(self, model: Path) -> None:
        self.environment = environment(
            ORIN_LLM_MODEL=str(model),
            ORIN_LLM_TEMP="0",
            ORIN_LLM_THREADS="1",
            ORIN_LLM_CTX_SIZE="1024",
        )

    def __call__(
        self, *arguments: str, stdin: bytes = b"", **environment: str
    ) -> tuple[int, str, str]:
        done = run_process(
            [*CLI, "run", *arguments], stdin, env={**self.environment, **environment}
        )
        return done.returncode, done.stdout, done.stderr

    def json(self, *arguments: str, stdin: bytes = b"", **environment: str) -> dict[str, Any]:
        code, out, err = self(*arguments, "--json", "-n", "12", stdin=stdin, **environment)
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert isinstance(found, dict)
        return found

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return start_process([*CLI, "run", *arguments], env=self.environment)


@pytest.fixture(scope="module")
def run(smollm2: Path) -> Runner:
    return Runner(smollm2)


def test_the_answer_is_on_stdout_and_the_figures_on_stderr(run: Runner) -> None:
    code, out, err = run("--raw", "-p", TEXT, "-n", "8")
    assert code == 0
    assert "Paris" in out
    assert out.endswith("\n") and not out.endswith("\n\n")
    for figure in ("prompt ", "(0 cached)", "answer ", "TTFT ", "TPOT ", "p95", "tokens/s", "GB/s"):
        assert figure in err


def test_quiet_leaves_the_answer_alone(run: Runner) -> None:
    code, out, err = run("--raw", "-p", TEXT, "-n", "8", "-q")
    assert (code, err) == (0, "")
    assert "Paris" in out


def test_json_is_one_object_of_the_documented_shape(run: Runner) -> None:
    found = run.json("-p", PROMPT)
    ids = {"text", "prompt_tokens", "completion_tokens", "token_ids", "finish_reason"}
    assert ids | {"timings", "kv", "backend"} <= found.keys()
    assert found["completion_tokens"] == len(found["token_ids"]) == 12
    rates = {"prefill_tokens_per_s", "decode_tokens_per_s"}
    assert rates | {"load_ms", "ttft_ms", "tpot_ms", "itl_ms"} <= found["timings"].keys()
    assert {"p50", "p90", "p99"} <= found["timings"]["itl_ms"].keys()
    load = found["timings"]["load"]
    parts = ("open_ms", "read_ms", "upload_ms", "warmup_ms")
    assert all(load[part] >= 0 for part in parts) and load["read_ms"] > 0
    assert found["timings"]["load_ms"] == pytest.approx(sum(load[part] for part in parts))
    assert 90_000_000 < load["weights_bytes"] < 100_000_000 and load["direct_bytes"] >= 0
    pages = {"page_size", "pages_used", "pages_total"}
    sizes = {"bytes_used", "bytes_reserved", "hit_rate", "fragmentation"}
    assert pages | sizes == found["kv"].keys()
    assert set(found["backend"]["hooks"].values()) <= {"on", "off", "unavailable"}
    assert found["backend"]["device"]


def test_the_prompt_is_the_same_from_a_flag_a_file_and_stdin(run: Runner, tmp_path: Path) -> None:
    by_flag = run.json("-p", PROMPT)
    file = tmp_path / "prompt.txt"
    file.write_text(PROMPT + "\n")
    same = ("text", "token_ids", "prompt_tokens")
    for other in (
        run.json("-f", str(file)),
        run.json(stdin=f"{PROMPT}\n".encode()),
        run.json("-f", "-", stdin=PROMPT.encode()),
        run.json(ORIN_LLM_PROMPT=PROMPT),
    ):
        assert [other[key] for key in same] == [by_flag[key] for key in same]


def test_a_flag_goes_before_the_environment(run: Runner, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Name a colour.")
    from_file = run.json("-f", str(file))
    assert run.json("-f", str(file), ORIN_LLM_PROMPT=PROMPT)["text"] == from_file["text"]


def test_raw_continues_the_text_without_a_template(run: Runner) -> None:
    raw = run.json("--raw", "-p", TEXT)
    assert "Paris" in raw["text"]
    assert raw["prompt_tokens"] == 5
    assert run.json("-p", TEXT)["prompt_tokens"] > 15


def test_the_system_prompt_is_part_of_the_prompt(run: Runner) -> None:
    brief = run.json("-p", PROMPT, "--system", "Brief.")
    assert brief["prompt_tokens"] < run.json("-p", PROMPT)["prompt_tokens"]
    assert run("-p", PROMPT, "--raw", "--system", "Brief.")[0] == 2


def test_the_answer_ends_at_its_limit_and_before_a_stop_text(run: Runner) -> None:
    limited = run.json("-p", "Count to a hundred.")
    assert (limited["completion_tokens"], limited["finish_reason"]) == (12, "length")
    stopped = run.json("--raw", "-p", TEXT, "--stop", "aris", "--stop", "no such text")
    assert (stopped["text"], stopped["finish_reason"]) == (" P", "stop")


def test_a_seed_makes_the_draw_repeatable(run: Runner) -> None:
    hot = ("-p", "Tell a story.", "--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0")
    first, again, other = (run.json(*hot, "--seed", seed)["token_ids"] for seed in ("1", "1", "2"))
    assert first == again != other


def test_a_prompt_beyond_the_context_fails_with_both_sizes(run: Runner) -> None:
    code, out, err = run("-c", "64", "-p", "word " * 100)
    assert (code, out) == (1, "")
    assert err.startswith("error: the prompt has ") and "64" in err and "--ctx-size" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-p", ""], "the prompt is empty"),
        (["-p", "a", "-f", "b"], "expected one of them"),
        (["-p", "a", "--hooks", "-nothing"], "unknown hook"),
        (["-p", "a", "-ctk", "f7"], "kv_type"),
        (["-p", "a", "--temp", "-1"], "temperature"),
        (["-p", "a", "-n", "0"], "max_tokens"),
        (["-p", "a", "--stop", ""], "stop string is empty"),
        (["-p", "a", "-c", "100000000"], "-c/--ctx-size"),
        (["-p", "a", "-c", "100000"], "choose at most 8192 (-c/--ctx-size"),
        (["-p", "a", "--encoding", "klingon"], "unknown encoding"),
    ],
)
def test_wrong_usage_is_told_before_the_model_loads(
    run: Runner, arguments: list[str], message: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and message in err


def test_what_is_no_model_exits_with_3(run: Runner, tmp_path: Path) -> None:
    fake = tmp_path / "model.gguf"
    fake.write_text("not a model\n" * 100)
    code, out, err = run("-p", PROMPT, "-m", str(fake))
    assert (code, out) == (3, "")
    assert err.startswith("error: ") and "Traceback" not in err


def test_a_model_that_was_not_pulled_names_the_command(run: Runner, tmp_path: Path) -> None:
    code, _, err = run("-p", PROMPT, "-m", "smollm2", ORIN_LLM_MODELS=str(tmp_path))
    assert code == 3
    assert "orin-llm models pull smollm2" in err


def test_input_that_is_not_text_is_refused(run: Runner, tmp_path: Path) -> None:
    code, out, err = run(stdin="Où est le café ?".encode("cp1252"))
    assert (code, out) == (1, "")
    assert "byte 0xF9 at offset 1" in err and "--encoding cp1252" in err
    accented = run.json("--encoding", "cp1252", stdin="Où est le café ?".encode("cp1252"))
    assert accented["token_ids"] == run.json(stdin="Où est le café ?".encode())["token_ids"]
    code, _, err = run("-f", run.environment["ORIN_LLM_MODEL"])
    assert code == 1
    assert "longer than 64 MiB" in err or "a GGUF model" in err


def test_ctrl_c_keeps_the_partial_answer(run: Runner) -> None:
    process = run.start(*STORY)
    out = read_some(process)
    rest, err = interrupt(process)
    out += rest
    assert process.returncode == 130
    assert out.strip() and out.endswith("\n")
    assert "answer " in err and "Traceback" not in err


def test_ctrl_c_still_gives_the_json_of_what_there_is(run: Runner) -> None:
    out, wait_s = "", 1.0
    while not out and wait_s < 60:  # nothing is printed if it was still loading
        wait_s *= 2
        process = run.start(*STORY, "--json")
        time.sleep(wait_s)
        out, err = interrupt(process)
        assert process.returncode in INTERRUPTED and err == ""
    assert json.loads(out)["finish_reason"] == "cancelled"


def test_ctrl_c_during_prefill_leaves_at_once(run: Runner, tmp_path: Path) -> None:
    prompt = tmp_path / "long.txt"
    prompt.write_text("The sea was calm that day. " * 1000)
    process = run.start("-f", str(prompt), "-c", "8192")
    time.sleep(2)
    _, err = interrupt(process)
    assert process.returncode in INTERRUPTED
    assert "Traceback" not in err


def test_a_reader_that_leaves_early_ends_the_answer_quietly(run: Runner) -> None:
    process = run.start(*STORY, "-q")
    read_some(process)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == ""
    process.stderr.close()


def test_a_model_that_runs_without_pages_is_a_note(run: Runner, tmp_path: Path) -> None:
    model = tmp_path / "alibi.gguf"
    model.write_bytes(tiny_llama(shape=Shape(arch="refact")).data)
    code, _, err = run("--raw", "-m", str(model), "-p", "a", "-n", "2", "-c", "64")
    assert code == 0
    assert "note: the KV cache is not paged: " in err
    code, _, err = run("--raw", "-m", str(model), "-p", "a", "-n", "2", "-c", "64", "-q")
    assert (code, err) == (0, "")
    assert "note" not in run("--raw", "-p", TEXT, "-n", "2")[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_closes_the_engine(
    number: signal.Signals, smollm2: Path, tmp_path: Path
) -> None:
    where = environment(XDG_RUNTIME_DIR=str(tmp_path))
    running = start_process([*CLI, "run", "-m", str(smollm2), *STORY, "-t", "1"], env=where)
    until(lambda: any(tmp_path.glob("orin-llm/*.sock")), "the engine")
    running.send_signal(number)
    assert running.wait(60) == 128 + number
    assert not any(tmp_path.glob("orin-llm/*.sock"))
