"""`models verify`: every tensor and every file, in the store and elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from gguf_bytes import tiny_llama, vocab_only
from load_support import LARGE_BYTES, break_value, write_large_model
from models_support import TINY, Recorder, store_environment, write_split_model
from processes import CLI, interrupt, start
from stats_support import until
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.errors import ModelFileError
from orin_llm.gguf.split import files_there
from orin_llm.models.pull import pull
from orin_llm.models.reporter import Progress
from orin_llm.models.store import Store
from orin_llm.models.verify import verify

MARKS = tiny_llama().marks
TENSOR = "blk.1.ffn_up.weight"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama().data)
    return path


def pulled(store: Store, path: Path) -> Path:
    """The store's own copy of a file."""
    manifest = pull(str(path), store=store, reporter=Recorder()).manifest
    copy = store.path(manifest.name)
    data = copy.read_bytes()
    copy.unlink()  # it may share its storage with the source
    copy.write_bytes(data)
    return copy


def command(store: Store, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {"ORIN_LLM_MODELS": str(store.root), "COLUMNS": "80"}
    done = CliRunner().invoke(app, ["models", "verify", *arguments], env=variables)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def test_a_model_of_the_store_is_checked_by_its_name_and_by_its_path(
    store: Store, tiny: Path
) -> None:
    path = pulled(store, tiny)
    sha256 = hashlib.sha256(tiny.read_bytes()).hexdigest()
    for wanted in ("tiny", str(path), str(tiny)):  # the last is what it was pulled by, and a path
        found = verify(store, wanted, Recorder())
        assert found.tensors == 20 and [file.sha256 for file in found.files] == [sha256]
        assert found.stored == (wanted != str(tiny))


def test_every_byte_is_reported_as_progress(store: Store, tiny: Path) -> None:
    recorder = Recorder()
    verify(store, str(tiny), recorder)
    size = tiny.stat().st_size
    assert recorder.steps[-1] == Progress("checking tiny.gguf", size, size)


@pytest.mark.parametrize("name", ["output_norm.weight", TENSOR, "token_embd.weight"])
def test_a_tensor_that_is_not_finite_is_named_with_its_place(
    store: Store, tiny: Path, name: str
) -> None:
    at = MARKS[f"{name}/data"] + 8
    break_value(tiny, at)
    with pytest.raises(ModelFileError, match=f"tensor {name} has values that are not") as caught:
        verify(store, str(tiny), Recorder())
    assert caught.value.field == name and caught.value.path == str(tiny)
    assert caught.value.offset is not None and caught.value.offset <= at


def test_how_many_tensors_are_broken_is_told(store: Store, tiny: Path) -> None:
    for name in ("output_norm.weight", TENSOR, "token_embd.weight"):
        break_value(tiny, MARKS[f"{name}/data"])
    with pytest.raises(ModelFileError, match=r"token_embd.weight .*, and so have 2 other tensors"):
        verify(store, str(tiny), Recorder())


def test_a_stored_file_that_changed_is_told_from_one_that_came_broken(
    store: Store, tiny: Path
) -> None:
    path = pulled(store, tiny)
    break_value(path, MARKS[f"{TENSOR}/data"])
    with pytest.raises(ModelFileError, match="has changed since it was pulled"):
        verify(store, "tiny", Recorder())
    broken = tiny.rename(tiny.with_name("broken.gguf"))
    break_value(broken, MARKS[f"{TENSOR}/data"])
    pulled(store, broken)
    with pytest.raises(ModelFileError, match="not finite.*this is how it was pulled"):
        verify(store, "broken", Recorder())


def test_a_stored_file_with_a_broken_header_has_changed(store: Store, tiny: Path) -> None:
    path = pulled(store, tiny)
    with path.open("r+b") as file:
        file.write(b"FUGG")
    with pytest.raises(ModelFileError, match="has changed since it was pulled"):
        verify(store, "tiny", Recorder())


def test_a_split_model_is_checked_in_all_its_files_by_the_path_of_any(
    store: Store, tmp_path: Path
) -> None:
    paths = write_split_model(tmp_path, "two")
    for path in paths:
        found = verify(store, str(path), Recorder())
        assert [file.name for file in found.files] == [path.name for path in paths]
        assert found.tensors == 20
    second = paths[1].read_bytes()
    break_value(paths[1], len(second) - 4)
    with pytest.raises(ModelFileError, match=r"two-00002-of-00002.gguf: tensor") as caught:
        verify(store, str(paths[0]), Recorder())
    assert caught.value.path == str(paths[1])
    paths[1].write_bytes(second[:-64])
    with pytest.raises(ModelFileError, match="part 2 of the model"):
        verify(store, str(paths[0]), Recorder())


@pytest.mark.parametrize("name", ["whole-00001-of-00002.gguf", "whole-00001-of-00001.gguf"])
def test_a_whole_model_that_is_named_as_a_part_is_one_file(
    store: Store, tiny: Path, name: str
) -> None:
    path = tiny.rename(tiny.with_name(name))
    assert [file.name for file in verify(store, str(path), Recorder()).files] == [name]
    assert files_there(path) == (path,)


def test_a_vocabulary_has_no_tensors_to_check(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "vocab.gguf"
    path.write_bytes(vocab_only().data)
    assert verify(store, str(path), Recorder()).tensors == 0


def test_a_file_that_shrinks_while_it_is_read_is_an_error_with_the_place(
    store: Store, tmp_path: Path
) -> None:
    path = write_large_model(tmp_path / "large.gguf")

    class Shrinking(Recorder):
        def progress(self, progress: Progress) -> None:
            os.truncate(path, LARGE_BYTES // 2)

    with pytest.raises(ModelFileError, match="large.gguf") as caught:
        verify(store, str(path), Shrinking())
    assert caught.value.path == str(path)
    assert caught.value.offset is not None and caught.value.offset >= LARGE_BYTES // 2


def test_the_command_says_what_was_compared_and_goes_on_after_a_bad_file(
    store: Store, tiny: Path, tmp_path: Path
) -> None:
    pulled(store, tiny)
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(TINY[:1000])
    done = command(store, str(bad), "tiny", str(tiny), "tiny")
    assert done.returncode == 3
    first, *others = done.stdout.splitlines()
    assert first.startswith(f"{bad}: ") and first.count("bad.gguf") == 1
    assert others == [
        "tiny: ok (20 tensors; SHA-256 as pulled)",
        f"{tiny}: ok (20 tensors; not of the store: no SHA-256 to compare)",
    ]


def test_json_names_the_tensor_and_the_place(store: Store, tiny: Path) -> None:
    pulled(store, tiny)
    break_value(tiny, MARKS[f"{TENSOR}/data"])
    done = command(store, "tiny", str(tiny), "--json")
    good, bad = json.loads(done.stdout)["models"]
    assert done.returncode == 3
    assert good["ok"] and good["tensors"] == 20 and good["stored"] and good["problem"] is None
    assert len(good["files"][0]["sha256"]) == 64
    assert not bad["ok"] and bad["field"] == TENSOR and bad["offset"] > 0


def test_what_is_no_name_is_told_before_anything_is_read(store: Store, tiny: Path) -> None:
    done = command(store, str(tiny), "no such")
    assert (done.returncode, done.stdout) == (2, "") and "cannot name a model" in done.stderr


def test_a_path_that_is_not_utf8_is_printed_as_it_is(store: Store, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.gguf")
    path.write_bytes(TINY)
    done = subprocess.run(
        [*CLI, "models", "verify", path], env=store_environment(store.root), capture_output=True
    )
    assert done.returncode == 0 and done.stdout.startswith(os.fsencode(path) + b": ok (20 tensors")


def has_open(pid: int, path: Path) -> bool:
    return any(file.resolve() == path for file in Path(f"/proc/{pid}/fd").iterdir())


def test_ctrl_c_ends_it(store: Store, tmp_path: Path) -> None:
    path = write_large_model(tmp_path / "large.gguf")
    os.truncate(path, 1 << 42)  # four terabytes of holes: it would take an hour
    process = start([*CLI, "models", "verify", str(path)], env=store_environment(store.root))
    until(lambda: has_open(process.pid, path), "its reading")
    out, err = interrupt(process)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err
