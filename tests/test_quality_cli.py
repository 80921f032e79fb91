"""`orin-llm perplexity` and `compare` as a shell sees them."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from gguf_bytes import Shape, tiny_llama
from processes import CLI, start
from typer.testing import CliRunner

from orin_llm.cli.main import app

TEXT = "".join(f"{n} and {n * 7 % 13} are numbers; " for n in range(40))
SMALL = ("-c", "64", "-t", "1", "--windows", "3")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "a model.gguf"
    path.write_bytes(tiny_llama(shape=Shape(n_embd=128)).data)
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def invoke(*arguments: str | Path) -> Result:
    """In this process: a start of the program takes longer than all that it does here."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def told(*arguments: str | Path) -> str:
    done = invoke(*arguments)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def said(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(*arguments, "--json"))
    return found


def failed(code: int, *arguments: str | Path) -> str:
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    return done.stderr


def test_perplexity_is_told_with_its_text_and_windows(model: Path, text: Path) -> None:
    found = said("perplexity", model, "--text", text, *SMALL, "--kv-type", "q8_0:q4_0")
    assert found["model"] == str(model) and found["text"]["name"] == str(text)
    assert (found["window_tokens"], found["windows"], found["scored_tokens"]) == (64, 3, 93)
    assert found["kv_type"] == "q8_0:q4_0" and found["steps"] == "prompt"
    assert 1 < found["ppl"] < 2000 and 0 < found["ppl_uncertainty"] < found["ppl"]
    assert len(found["window_ppl"]) == 3 and found["backend"]["hooks"]["sampling"] == "off"
    shown = told("perplexity", model, "--text", text, *SMALL)
    assert "3 windows of 64 tokens, 93 tokens count" in shown and "perplexity    " in shown


def test_a_comparison_is_told_and_a_row_of_a_table(model: Path, text: Path, tmp_path: Path) -> None:
    how = ("--text", text, *SMALL, "--kv-type", "q4_0", "--ref-hooks", "none")
    found = said("compare", model, *how)
    assert found["reference"]["kv_type"] == "f16" and found["model"]["kv_type"] == "q4_0"
    assert found["reference"]["backend"]["hooks"]["pages"] == "off"
    assert found["ppl_ratio"] == pytest.approx(found["model"]["ppl"] / found["reference"]["ppl"])
    assert 0 < found["kl_divergence"]["mean"] < found["kl_divergence"]["max"] < 1
    assert 0.5 < found["same_top"] <= 1 and found["max_logit_difference"] > 0
    head, rule, row = told("compare", model, *how, "--format", "md").splitlines()
    assert head.count("|") == rule.count("|") == row.count("|") == 13
    assert f"{found['kl_divergence']['median']:.6f}" in row and "| q4_0 |" in row
    mean = found["kl_divergence"]["mean"]
    assert f"KL divergence mean {mean:.6f} ±" in told("compare", model, *how)


def test_saved_log_probabilities_are_a_reference(model: Path, text: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    how = ("--text", text, *SMALL)
    said("perplexity", model, *how, "--save-logits", base)
    found = said("compare", model, "--logits", base, "--kv-type", "q8_0")
    both = said("compare", model, *how, "--kv-type", "q8_0")
    assert found["reference"]["logits"] == str(base) and found["text"] is None
    assert found["model"]["ppl"] == pytest.approx(both["model"]["ppl"], rel=1e-9)
    assert found["ppl_ratio"] == pytest.approx(both["ppl_ratio"], abs=1e-4)
    assert found["max_logit_difference"] is None
    assert "exists" in failed(2, "perplexity", model, *how, "--save-logits", base)
    said("perplexity", model, *how, "--save-logits", base, "--force")
    assert "name one model" in failed(2, "compare", model, model, "--logits", base)
    assert "brings its own" in failed(2, "compare", model, "--logits", base, "--text", text)
    assert "--ref-hooks has no use" in failed(
        2, "compare", model, "--logits", base, "--ref-hooks", "none"
    )


def test_what_cannot_be_done_is_said_before_a_model_is_loaded(
    model: Path, text: Path, tmp_path: Path
) -> None:
    short, binary = tmp_path / "short", tmp_path / "binary"
    short.write_text("too short")
    binary.write_bytes(bytes(range(256)))
    for arguments, code, message in (
        (("perplexity", model, "--text", tmp_path / "none"), 1, "cannot read"),
        (("perplexity", model, "--text", short, "-c", "64"), 2, "less than one window of 64"),
        (("perplexity", model, "--text", binary), 1, "not text"),
        (("perplexity", model, "--text", text, "-c", "8"), 2, "-c"),
        (("perplexity", model, "--text", text, "-c", "4096"), 2, "trained for"),
        (("perplexity", model, "--text", text, "--kv-type", "q9"), 2, "q9"),
        (("perplexity", model, "--text", text, "--hooks", "speed"), 2, "unknown hook"),
        (("perplexity", text), 3, "GGUF"),
        (("perplexity", model, "--text", text, "--save-logits", tmp_path, *SMALL), 2, "directory"),
        (("perplexity", model, *SMALL, "--save-logits", tmp_path / "a/b"), 2, "does not exist"),
        (("perplexity", model, "--save-logits", model, "--force"), 2, "is the model itself"),
        (("compare", model), 2, "are the same"),
        (("compare", model, model, "--format", "html"), 2, "no format"),
        (("compare", model, "--logits", text), 1, "no log-probabilities"),
        (("compare", model, tmp_path / "none.gguf"), 3, "none.gguf"),
    ):
        assert message in failed(code, *arguments), arguments


def test_ctrl_c_ends_a_perplexity_and_leaves_no_file(model: Path, tmp_path: Path) -> None:
    text, base = tmp_path / "long.txt", tmp_path / "base"
    text.write_text(TEXT * 400)
    how = ("--text", str(text), "-c", "256", "-t", "1", "--decode", "--save-logits", str(base))
    process = start([*CLI, "perplexity", str(model), *how])
    while not list(tmp_path.glob(".base.*.part")):  # it computes from now on
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.txt"]
