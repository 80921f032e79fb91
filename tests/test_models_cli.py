"""`orin-llm models` as a stranger uses it: what is printed, what is refused, with which code."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pexpect
import pytest
from gguf_bytes import string, tiny_llama_bytes
from models_support import TINY, orin_llm, store_environment
from processes import CLI, python
from processes import run as run_process
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.cli.progress import line
from orin_llm.host.units import size_text
from orin_llm.models.registry import HubFile, registry
from orin_llm.models.reporter import Progress
from orin_llm.models.store import Store


@pytest.fixture
def stocked(store: Store, tmp_path: Path) -> Store:
    """A store with one model, named tiny."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(TINY)
    done = run(store, "pull", str(file))
    assert done.returncode == 0, done.stderr
    return store


def run(store: Store, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in this process, which is quicker than one of its own."""
    variables = {"ORIN_LLM_MODELS": str(store.root), "COLUMNS": "80", **variables}
    done = CliRunner().invoke(app, ["models", *arguments], env=variables)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def on_terminal(store: Store, keys: str, *arguments: str, columns: int = 60) -> tuple[int, str]:
    """Run with a terminal for stdin, stdout and stderr; exit code and everything shown."""
    environment = store_environment(store.root, TERM="xterm", COLUMNS=str(columns))
    child = pexpect.spawn(
        CLI[0], [*CLI[1:], "models", *arguments], env=environment, encoding="utf-8", timeout=60
    )
    child.send(keys)
    shown = child.read()
    child.close()
    return child.exitstatus, shown


def test_help_needs_nothing_heavy() -> None:
    heavy = ["huggingface_hub", "httpx", "httpx2", "rich.progress", "rich.table", "numpy"]
    heavy += ["orin_llm._native", "urllib.request"]
    probe = (
        "import sys, orin_llm.cli.models, orin_llm.cli.doctor;"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = run_process(python(probe))
    assert done.stdout.strip() == "[]", done.stderr


def test_help_lists_every_command(store: Store) -> None:
    done = run(store, "--help")
    assert done.returncode == 0
    for name in ("pull", "list", "path", "rm", "show", "verify", "synth", "widen"):
        assert f" {name} " in done.stdout


def test_pull_prints_the_path_alone_on_stdout(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(TINY)
    done = run(store, "pull", str(file))
    assert done.stdout == f"{store.path('tiny')}\n"
    again = run(store, "pull", str(file))
    assert again.stdout == done.stdout and "in the store already" in again.stderr
    assert run(store, "path", "tiny").stdout == done.stdout


def test_pull_as_json_gives_the_record(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(TINY)
    data = json.loads(run(store, "pull", str(file), "--json", "--name", "mine").stdout)
    assert data["name"] == "mine" and data["size_bytes"] == len(TINY) and data["fresh"] is True
    assert json.loads(run(store, "pull", str(file), "--json").stdout)["fresh"] is False


def test_a_file_name_that_is_not_utf8_is_no_obstacle(store: Store, tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.gguf")
    file.write_bytes(TINY)
    done = orin_llm("models", "pull", str(file), store=store.root)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{store.path('caf')}\n"
    assert run(store, "verify").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["pull", ""], 2, "no model given"),
        (["pull"], 2, "Missing argument"),
        (["pull", "../no-such"], 3, "no such file"),
        (["pull", "no such"], 2, "cannot name a model"),
        (["pull", "mistral7b"], 2, "did you mean mistral-7b?"),
        (["pull", "x.gguf", "--sha256", "12"], 2, "not a SHA-256"),
        (["pull", "/tmp"], 3, "is a directory"),
        (["show", "nothing-like-it"], 3, "there is no model"),
        (["show", "smollm2"], 3, "orin-llm models pull smollm2"),
        (["path", "a/b/c"], 3, "no such file"),
        (["rm", "../models"], 2, "cannot name a model"),
        (["rm", "unknown", "--yes"], 3, "not in the store: unknown"),
        (["verify", "unknown"], 3, ""),
        (["list", "--nonsense"], 2, "No such option"),
        (["synth", "--shape", "cube", "out.gguf"], 2, "unknown shape"),
        (["widen", "nothing-like-it", "out.gguf"], 3, "there is no model"),
    ],
)
def test_wrong_input_ends_in_a_message_and_a_code(
    store: Store, arguments: list[str], code: int, says: str
) -> None:
    done = run(store, *arguments)
    assert done.returncode == code
    assert says in done.stderr and "Traceback" not in done.stderr


def test_an_empty_store_says_how_to_begin(store: Store) -> None:
    done = run(store, "list")
    assert done.returncode == 0 and done.stdout == ""
    assert "orin-llm models pull smollm2" in done.stderr
    assert json.loads(run(store, "list", "--json").stdout)["models"] == []


def test_the_list_names_what_is_here_and_what_could_be(stocked: Store) -> None:
    lines = run(stocked, "list", "--all").stdout.splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "QUANT", "CONTEXT", "FROM"]
    assert lines[1].split()[0] == "tiny" and lines[1].split()[-1].endswith("tiny.gguf")
    offered = {text.split()[0] for text in lines[2:]}
    assert offered == set(registry()) and all("not pulled" in text for text in lines[2:])


def test_a_piped_list_keeps_one_line_per_model(stocked: Store) -> None:
    lines = run(stocked, "list", COLUMNS="20").stdout.splitlines()
    assert len(lines) == 2 and lines[1].endswith("tiny.gguf")


def test_a_narrow_terminal_still_shows_the_name(stocked: Store) -> None:
    code, shown = on_terminal(stocked, "", "list")
    assert code == 0 and "tiny" in shown and "Traceback" not in shown
    plain = re.sub(r"\x1b\[[0-9;]*m|\r", "", shown)
    assert all(len(text) <= 60 for text in plain.splitlines())


@pytest.mark.parametrize("columns", [50, 30, 20])
def test_a_list_cuts_no_name_and_no_figure_on_a_narrow_terminal(
    stocked: Store, columns: int
) -> None:
    code, shown = on_terminal(stocked, "", "list", "--all", columns=columns)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m|\r", "", shown)
    assert all(len(text) <= columns for text in plain.splitlines())
    words = " ".join(plain.split())
    for entry in registry().values():
        facts = f"{size_text(entry.bytes)} {entry.quant} {entry.context} not pulled"
        assert f"{entry.name} {facts}" in words


def test_damage_unfinished_pulls_and_loose_files_are_pointed_out(stocked: Store) -> None:
    (stocked.folder("tiny") / "manifest.json").write_text("{")
    (stocked.make_partial("half") / "m.gguf.part").write_bytes(b"1234")
    (stocked.root / "loose.gguf").write_bytes(TINY)
    done = run(stocked, "list")
    assert done.returncode == 0
    assert "damaged" in done.stdout
    for text in ("models rm tiny", "unfinished: half, 4 B so far", "1 .gguf files"):
        assert text in done.stderr


def test_the_list_as_json_has_paths_and_sizes(stocked: Store) -> None:
    data = json.loads(run(stocked, "list", "--json", "--all").stdout)
    (model,) = data["models"]
    assert model["path"] == str(stocked.path("tiny")) and model["size_bytes"] == len(TINY)
    by_name = {entry["name"]: entry for entry in data["registry"]}
    assert by_name["smollm2"]["size_bytes"] == 98_362_432
    assert by_name["smollm2"]["licence"] == "Apache-2.0"


def test_show_prints_the_arithmetic(stocked: Store) -> None:
    done = run(stocked, "show", "tiny", "--ctx", "100")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "architecture llama, 2 layers" in text
    assert "KV per token 256 B (f16)" in text  # 2 layers * 2 heads * (16 + 16) * 2 bytes
    assert "KV (f16) of 100 tokens, and its logits" in text
    assert "licence mit" in text and "chat template none in the file" in text
    assert "fits: " in text


def test_show_as_json_adds_up(stocked: Store) -> None:
    data = json.loads(run(stocked, "show", "tiny", "--ctx", "64", "--json").stdout)
    memory = data["memory"]
    assert data["kv_per_token_bytes"] == 256 and memory["kv_bytes_per_sequence"] == 64 * 256
    per_sequence = memory["kv_bytes_per_sequence"] + memory["logits_bytes_per_sequence"]
    left = memory["usable_bytes"] - memory["weights_bytes"] - memory["activations_bytes"]
    assert memory["table_copy_bytes"] == 0
    assert memory["sequences"] == left // per_sequence and memory["fits"] is True
    assert sum(share["size_bytes"] for share in data["tensor_types"]) == data["size_bytes"]
    embedding, output = data["tables"]["embedding"], data["tables"]["output"]
    assert data["tables"]["tied"] and not data["tables"]["copied"] and data["problem"] is None
    assert embedding["shape"] == [64, 300] and embedding["read_per_token_bytes"] == 64 * 4
    assert output["read_per_token_bytes"] == output["size_bytes"] == 300 * 64 * 4


def test_show_takes_a_path_and_its_own_context(stocked: Store) -> None:
    data = json.loads(run(stocked, "show", str(stocked.path("tiny")), "--json").stdout)
    assert data["memory"]["ctx"] == 256


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--kv-type", "q3"], "expected f16, bf16"),
        (["--ctx", "-1"], "--ctx"),
        (["--ctx", "x"], "--ctx"),
    ],
)
def test_show_refuses_what_it_cannot_use(stocked: Store, arguments: list[str], says: str) -> None:
    done = run(stocked, "show", "tiny", *arguments)
    assert done.returncode == 2 and says in done.stderr


def test_what_a_file_calls_itself_cannot_drive_the_terminal(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "evil.gguf"
    evil = {"general.name": string(b"\x1b]0;owned\x07\xff"), "general.license": string("\x1b[2J")}
    file.write_bytes(tiny_llama_bytes(metadata=evil))
    pulled = run(store, "pull", str(file))
    shown = run(store, "show", "evil")
    assert pulled.returncode == shown.returncode == 0
    assert "\x1b" not in pulled.stderr + shown.stdout


def test_verify_says_ok_or_what_is_wrong(stocked: Store, tmp_path: Path) -> None:
    done = run(stocked, "verify", "tiny")
    assert done.returncode == 0 and done.stdout == ("tiny: ok (20 tensors; SHA-256 as pulled)\n")
    other = tmp_path / "other.gguf"
    other.write_bytes(TINY + b"")
    assert run(stocked, "pull", str(other)).returncode == 0
    path = stocked.path("other")
    path.unlink()
    changed = bytearray(TINY)
    changed[-1] ^= 1
    path.write_bytes(changed)
    done = run(stocked, "verify")
    assert done.returncode == 3
    assert "tiny: ok" in done.stdout and "other: other.gguf has changed" in done.stdout
    data = json.loads(run(stocked, "verify", "--json").stdout)["models"]
    assert {m["name"]: m["ok"] for m in data} == {"tiny": True, "other": False}


@pytest.mark.parametrize(("change", "says"), [("cut", "bytes, "), ("gone", "is missing")])
def test_verify_notices_a_file_that_is_cut_or_gone(stocked: Store, change: str, says: str) -> None:
    path = stocked.path("tiny")
    path.unlink()
    if change == "cut":
        path.write_bytes(TINY[:1000])
    done = run(stocked, "verify", "tiny")
    assert done.returncode == 3 and says in done.stdout and "models rm tiny" in done.stdout


def test_rm_without_a_terminal_wants_a_yes(stocked: Store) -> None:
    done = run(stocked, "rm", "tiny")
    assert done.returncode == 2 and "--yes" in done.stderr and stocked.has("tiny")
    done = run(stocked, "rm", "tiny", "tiny", "--yes")
    assert done.returncode == 0 and "removed tiny" in done.stderr and not stocked.has("tiny")


def test_rm_removes_nothing_if_one_name_is_unknown(stocked: Store) -> None:
    done = run(stocked, "rm", "tiny", "unknown", "--yes")
    assert done.returncode == 3 and "nothing was removed" in done.stderr and stocked.has("tiny")


@pytest.mark.parametrize(("answer", "stays"), [("y\n", False), ("n\n", True), ("\n", True)])
def test_rm_asks_on_a_terminal(stocked: Store, answer: str, stays: bool) -> None:
    code, shown = on_terminal(stocked, answer, "rm", "tiny")
    assert "Remove tiny? [y/N]" in shown
    assert (code != 0) == stays and stocked.has("tiny") == stays


def test_rm_frees_an_unfinished_pull(stocked: Store) -> None:
    (stocked.make_partial("half") / "m.gguf.part").write_bytes(b"1234")
    assert run(stocked, "rm", "half", "--yes").returncode == 0
    assert stocked.partials() == []


def test_a_closed_pipe_is_no_crash(stocked: Store) -> None:
    shell = f"{shlex.join(CLI)} models list --all | head -n 1"
    done = run_process(["bash", "-c", shell], env=store_environment(stocked.root))
    assert "NAME" in done.stdout and "Traceback" not in done.stderr


def test_progress_on_a_pipe_is_a_line_with_rate_and_time_left() -> None:
    text = line(Progress("fetching x.gguf", 1_200_000_000, 4_900_000_000), 35e6)
    assert text == "fetching x.gguf: 1.20 GB of 4.90 GB (24 %), 35.0 MB/s, 1:46 left"
    assert line(Progress("fetching x", 1000, None), 0) == "fetching x: 1.0 kB, 0 B/s"


def test_the_registry_fits_an_orin_and_tells_what_it_knows() -> None:
    entries = registry()
    assert next(iter(entries)) == "smollm2"
    for name, entry in entries.items():
        assert entry.licence and entry.context >= 8192 and entry.quant
        assert 0 < entry.bytes < 24e9, name
        assert entry.sha256 is None or len(entry.sha256) == 64
        if isinstance(entry.source, HubFile):
            assert entry.source.file.endswith("Q4_K_M.gguf") and entry.quant == "Q4_K_M"
