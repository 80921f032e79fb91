"""`orin-llm quantize` as it is used: what is printed, and what becomes of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf_bytes import Shape, tiny_llama_bytes
from numpy.typing import NDArray
from processes import CLI, environment, interrupt, run, start
from typer.testing import CliRunner, Result

from orin_llm.cli.main import app
from orin_llm.gguf.header import read_header
from orin_llm.quality.imatrix import Entry, Imatrix
from orin_llm.quality.imatrix_file import write_imatrix

LAYERS = 8


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """With rows of 64 and of 256."""
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_llama_bytes(shape=Shape(n_embd=64, n_ff=256, n_layer=LAYERS)))
    return path


def quantize(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["quantize", *map(str, arguments)], env={"COLUMNS": "100"})


def quantize_json(*arguments: str | Path) -> dict[str, Any]:
    done = quantize(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def floats(path: Path, name: str) -> NDArray[np.float32]:
    (tensor,) = (tensor for tensor in read_header(path).tensors if tensor.name == name)
    data = np.fromfile(path, np.uint8, tensor.nbytes, offset=tensor.offset)
    kind = gguf.GGMLQuantizationType[tensor.type]
    return gguf.dequantize(data.reshape(int(np.prod(tensor.shape[1:])), -1), kind)


def test_the_report_is_of_the_file_that_was_written(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    found = quantize_json(model, out, "Q4_K_M")
    tensors = {tensor.name: tensor for tensor in read_header(out).tensors}
    assert {t["name"]: (t["type"], t["bytes"]) for t in found["tensors"]} == {
        tensor.name: (tensor.type, tensor.nbytes) for tensor in tensors.values()
    }
    counts = {share["type"]: (share["tensors"], share["bytes"]) for share in found["types"]}
    for ggml_type, (count, nbytes) in counts.items():
        of_type = [tensor for tensor in tensors.values() if tensor.type == ggml_type]
        assert (count, nbytes) == (len(of_type), sum(tensor.nbytes for tensor in of_type))
    assert found["file_bytes"] == out.stat().st_size
    assert found["file_bytes"] == pytest.approx(found["estimated_bytes"], rel=0.01)
    weights = sum(int(np.prod(tensor.shape)) for tensor in tensors.values())
    nbytes = sum(tensor.nbytes for tensor in tensors.values())
    assert found["bits_per_weight"] == pytest.approx(8 * nbytes / weights)


def test_the_report_says_what_fell_back(model: Path, tmp_path: Path) -> None:
    found = quantize_json(model, tmp_path / "out.gguf", "Q4_K_M")
    narrow = {"wanted_type": "Q4_K", "type": "Q5_0", "n_inputs": 64}
    assert {**narrow, "tensors": 5 * LAYERS + LAYERS // 2} in found["fallbacks"]
    wide = [t for t in found["tensors"] if t["name"].endswith("ffn_down.weight")]
    assert {t["type"] for t in wide} == {"Q4_K", "Q6_K"}
    assert all(t["wanted_type"] == t["type"] for t in wide)
    printed = quantize(model, tmp_path / "again.gguf", "Q4_K_M").stdout
    assert f"{narrow['type']} in place of Q4_K, whose blocks do not divide rows of 64" in printed


def test_a_file_is_near_the_weights_it_was_made_of(model: Path, tmp_path: Path) -> None:
    for kind, error in (("Q8_0", 0.006), ("Q4_K_M", 0.12), ("F16", 3e-4)):
        out = tmp_path / f"{kind}.gguf"
        assert quantize(model, out, kind).exit_code == 0
        for name in ("blk.0.ffn_down.weight", "token_embd.weight", "blk.0.attn_norm.weight"):
            old, new = floats(model, name), floats(out, name)
            assert np.sqrt(np.mean((old - new) ** 2) / np.mean(old**2)) < error


def test_importance_lowers_the_error_where_it_is_high(model: Path, tmp_path: Path) -> None:
    name = "blk.3.ffn_down.weight"
    sums = np.ones((1, 256), np.float32)
    sums[0, ::8] = 1000
    imatrix = tmp_path / "i.gguf"
    entries = {name: Entry(4 * sums, np.array([4]))}
    write_imatrix(imatrix, Imatrix(entries, ("words.txt",), chunk_count=7, chunk_size=512))
    plain, weighted = tmp_path / "plain.gguf", tmp_path / "weighted.gguf"
    quantize_json(model, plain, "Q4_K_M")
    found = quantize_json(model, weighted, "Q4_K_M", "--imatrix", imatrix)
    assert len(found["without_importance"]) == 7 * LAYERS  # all, with the table, but one

    def error(path: Path, column: slice) -> float:
        difference = floats(path, name)[:, column] - floats(model, name)[:, column]
        return float(np.sqrt(np.mean(difference**2)))

    important = slice(None, None, 8)
    assert error(weighted, important) < 0.7 * error(plain, important)
    metadata = read_header(weighted).metadata
    assert metadata["quantize.imatrix.file"] == str(imatrix)[:127]
    assert metadata["quantize.imatrix.dataset"] == "words.txt"
    assert metadata["quantize.imatrix.entries_count"] == 1
    assert metadata["quantize.imatrix.chunks_count"] == 7


def test_a_kept_type_is_the_files(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    rules = ("--keep", "output=Q8_0", "--keep", "ffn_down=q5_k")
    quantize_json(model, out, "Q4_K_M", *rules)
    types = {tensor.name: tensor.type for tensor in read_header(out).tensors}
    assert types["token_embd.weight"] == "Q8_0"  # it is the output, too
    assert {types[f"blk.{layer}.ffn_down.weight"] for layer in range(LAYERS)} == {"Q5_K"}


def test_a_dry_run_says_the_same_and_writes_nothing(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    dry = quantize_json(model, out, "Q4_K_M", "--dry-run")
    assert not out.exists()
    done = quantize_json(model, out, "Q4_K_M")
    assert dry == {key: value for key, value in done.items() if key in dry}
    assert set(done) - set(dry) == {
        "out", "file_bytes", "duration_ms", "source_bytes_per_s", "threads",
    }  # fmt: skip
    printed = quantize(model, tmp_path / "other.gguf", "Q4_K_M", "--dry-run")
    assert "nothing was written" in printed.stdout


def test_the_estimate_comes_first_and_on_stderr(model: Path, tmp_path: Path) -> None:
    done = quantize(model, tmp_path / "out.gguf", "q4_k")
    assert done.stderr.startswith("model.gguf, 2.0 MB → out.gguf, Q4_K_M, about ")
    assert "are free there" in done.stderr and "→" not in done.stdout
    assert quantize(model, tmp_path / "quiet.gguf", "Q8_0", "-q").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.gguf", "out.gguf", "Q8_0"], 3, "there is no such file"),
        (["model.gguf", "out.gguf", "Q9"], 2, "unknown quantization 'Q9'"),
        (["model.gguf", "model.gguf", "Q8_0", "--force"], 2, "is the model itself"),
        (["model.gguf", "away/out.gguf", "Q8_0"], 2, "the directory away does not exist"),
        (["model.gguf", "out.gguf", "Q8_0", "--imatrix", "none"], 2, "there is no such file"),
        (["model.gguf", "out.gguf", "Q8_0", "--imatrix", "model.gguf"], 3, "not an importance"),
        (["model.gguf", "out.gguf", "Q8_0", "--keep", "x"], 2, "expected NAME=TYPE"),
    ],
)
def test_what_cannot_be_is_said_and_leaves_nothing(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(model.parent)
    done = quantize(*arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr
    assert [file.name for file in model.parent.iterdir()] == ["model.gguf"]


def test_ctrl_c_leaves_no_file(tmp_path: Path) -> None:
    big = tmp_path / "big.gguf"
    big.write_bytes(tiny_llama_bytes(shape=Shape(n_embd=512, n_ff=1024, n_layer=6)))
    child = start([*CLI, "quantize", str(big), str(tmp_path / "out.gguf"), "IQ4_XS", "-t", "1"])
    assert child.stderr is not None and "IQ4_XS" in child.stderr.readline()
    _, told = interrupt(child)
    assert (child.returncode, told) == (130, "")
    assert [file.name for file in tmp_path.iterdir()] == ["big.gguf"]


def test_a_model_of_the_store_is_found_by_its_name(model: Path, tmp_path: Path) -> None:
    env = environment(ORIN_LLM_MODELS=str(tmp_path / "store"))
    assert run([*CLI, "models", "pull", str(model)], env=env).returncode == 0
    out = tmp_path / "out.gguf"
    done = run([*CLI, "quantize", "model", str(out), "Q8_0"], env=env)
    assert done.returncode == 0, done.stderr
    assert read_header(out).metadata["general.file_type"] == 7
