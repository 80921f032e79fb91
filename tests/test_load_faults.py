"""Loads from disks that fail, are slow or do less than they could, and loads that are stopped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_bytes import tiny_llama, tiny_llama_bytes
from load_support import LARGE_BYTES, write_large_model
from models_support import write_split_model
from processes import CLI, environment, interrupt, python, run, start

from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
from orin_llm.errors import OrinError
from orin_llm.host import page_cache

WAYS = {
    "mapped": (),
    "read": ("--no-mmap",),
    "mapped, checked": ("--check-tensors",),
    "read, checked": ("--no-mmap", "--check-tensors"),
}
each_way = pytest.mark.parametrize("flags", WAYS.values(), ids=WAYS)
ANSWER = ("--raw", "-p", "a b c", "-n", "3", "--temp", "0", "-ngl", "0", "-t", "1", "--json")
AT = LARGE_BYTES // 2 + 4096  # where disks begin to fail


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What makes a disk of a file, to be preloaded."""
    library = tmp_path_factory.mktemp("faults") / "read_faults.so"
    source = Path(__file__).parent / "fakes" / "read_faults.c"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_large_model(tmp_path_factory.mktemp("models") / "large.gguf")


@pytest.fixture(scope="module")
def expected(large: Path) -> list[int]:
    """The large model's answer."""
    ids: list[int] = answer(large)["token_ids"]
    return ids


def on_disk(faults: Path, kind: str, file: Path, at: int = 0) -> dict[str, str]:
    """The environment of a process that has the file on such a disk."""
    return environment(
        LD_PRELOAD=str(faults), FAULT=kind, FAULT_FILE=file.name, FAULT_AT=str(at), COLUMNS="80"
    )


def answer(model: Path, *flags: str, **variables: str) -> dict[str, Any]:
    done = run([*CLI, "run", "-m", str(model), *ANSWER, *flags], env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def drop(path: Path) -> bool:
    """Take a file out of the page cache: what is in it is not read around it. Whether it could."""
    try:
        page_cache.drop(path)
    except OrinError:  # it lies in a tmpfs
        return False
    return True


@each_way
def test_a_disk_that_fails_is_an_error_that_names_file_and_offset(
    faults: Path, large: Path, flags: tuple[str, ...]
) -> None:
    drop(large)
    done = run(
        [*CLI, "run", "-m", str(large), *ANSWER, *flags], env=on_disk(faults, "eio", large, AT)
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "Input/output error" in line]
    assert line.startswith(f"error: {large}: cannot be read at byte ")
    offset = int(line.split("at byte ")[1].split()[0])
    # A piece that could not be read begins there, one of several that were read at the same time.
    assert AT - (16 << 20) < offset < large.stat().st_size


def test_a_disk_that_fails_under_verify_is_told(faults: Path, large: Path) -> None:
    drop(large)
    done = run([*CLI, "models", "verify", str(large)], env=on_disk(faults, "eio", large, AT))
    assert done.returncode == 3
    assert f"{large}: cannot be read at byte" in done.stdout


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        ("no O_DIRECT", 0),  # refused when the file is opened
        ("refuse direct reads", 0),  # refused at the first read
        ("refuse direct reads", AT),  # or at a later one
        ("short", 0),
        ("interrupted", 0),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--no-mmap", "--check-tensors")], ids=["mapped", "read"])
def test_a_disk_that_does_less_than_it_could_gives_the_same_model(
    faults: Path, large: Path, expected: list[int], kind: str, at: int, flags: tuple[str, ...]
) -> None:
    is_cold = drop(large)
    found = answer(large, *flags, **on_disk(faults, kind, large, at))
    assert found["token_ids"] == expected
    direct_bytes = found["timings"]["load"]["direct_bytes"]
    if kind == "no O_DIRECT" or (kind, at) == ("refuse direct reads", 0):
        assert direct_bytes == 0
    elif is_cold and flags:
        whole = found["timings"]["load"]["weights_bytes"]
        assert (0 < direct_bytes < whole) if at else direct_bytes == whole


def test_checksums_are_the_same_on_every_disk(faults: Path, large: Path) -> None:
    expected = hashlib.sha256(large.read_bytes()).hexdigest()
    for kind in ("none", "no O_DIRECT", "refuse direct reads", "short", "interrupted"):
        drop(large)
        verified = run(
            [*CLI, "models", "verify", str(large), "--json"], env=on_disk(faults, kind, large)
        )
        (model,) = json.loads(verified.stdout)["models"]
        assert model["files"][0]["sha256"] == expected, kind


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder of a tmpfs."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no tmpfs")
    folder = Path("/dev/shm") / f"orin-llm-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def test_a_model_in_memory_loads(in_memory: Path) -> None:
    path = in_memory / "tiny.gguf"
    path.write_bytes(tiny_llama_bytes())
    answers = [answer(path, *flags)["token_ids"] for flags in WAYS.values()]
    assert answers == [answers[0]] * len(WAYS)


@each_way
def test_ctrl_c_stops_a_load_at_once(faults: Path, large: Path, flags: tuple[str, ...]) -> None:
    drop(large)
    process = start(
        [*CLI, "run", "-m", str(large), *ANSWER, *flags], env=on_disk(faults, "slow", large)
    )
    while not is_loading(process.pid):
        assert process.poll() is None
    out, err = interrupt(process)
    assert (process.returncode, out, err) == (130, "", "")


def is_loading(pid: int) -> bool:
    """Whether threads read: the loader's own come before those that compute."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
        opened = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False
    return "_native" in maps and threads > 1 and any(path.endswith("large.gguf") for path in opened)


def test_what_a_slow_disk_takes_is_told_as_reading_once(faults: Path, large: Path) -> None:
    drop(large)
    found = started(large, "use_mmap=False", on_disk(faults, "slow", large))
    assert found["read_ms"] > 10 * 100 / (os.cpu_count() or 1)  # more than ten pieces
    assert min(found["open_ms"], found["warmup_ms"], found["upload_ms"]) >= 0


def test_two_processes_load_the_same_file_at_once(large: Path, expected: list[int]) -> None:
    drop(large)
    both = [
        start([*CLI, "run", "-m", str(large), *ANSWER, *flags]) for flags in ((), ("--no-mmap",))
    ]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["token_ids"] == expected


def test_engines_of_one_process_load_at_once(large: Path) -> None:
    program = f"""
        import threading
        from orin_llm.engine import Engine, EngineConfig, Request, SamplingParams
        answers = []
        def work(use_mmap):
            config = EngineConfig(n_ctx=64, threads=1, use_mmap=use_mmap, publish=False)
            with Engine({str(large)!r}, config) as engine:
                request = Request([5, 6], SamplingParams(temperature=0), max_tokens=3)
                answers.append("".join(chunk.text for chunk in engine.complete(request)))
        threads = [threading.Thread(target=work, args=[n % 2 == 0]) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 4 and len(set(answers)) == 1
    """
    done = run(python(program))
    assert done.returncode == 0, done.stderr


def test_a_part_that_is_cut_is_named_before_anything_is_read(tmp_path: Path) -> None:
    paths = write_split_model(tmp_path)
    os.truncate(paths[1], paths[1].stat().st_size - 100)
    done = run([*CLI, "run", "-m", str(paths[0]), *ANSWER])
    assert (done.returncode, done.stdout) == (3, "")
    assert f"part 2 of the model, {paths[1]}" in done.stderr


def test_weights_that_are_not_finite_are_refused_where_that_is_wanted(tmp_path: Path) -> None:
    name = "blk.1.ffn_up.weight"
    image = tiny_llama().patched(f"{name}/data", "<f", float("nan"), skip=400)
    path = tmp_path / "nan.gguf"
    path.write_bytes(image.data)
    for flags in (("--check-tensors",), ("--check-tensors", "--no-mmap")):
        done = run([*CLI, "run", "-m", str(path), *ANSWER, *flags])
        assert (done.returncode, done.stdout) == (3, "")
        assert name in done.stderr and str(path) in done.stderr
    with Engine(path, EngineConfig(n_ctx=64, threads=1)) as engine:  # not looked at
        engine.complete(Request([5], SamplingParams(temperature=0), max_tokens=1)).close()


@pytest.mark.parametrize("settings", ["use_mmap=True", "use_mmap=False"])
def test_the_peak_of_a_load_is_the_weights_and_what_is_read_ahead(
    large: Path, settings: str
) -> None:
    drop(large)
    extra = started(large, settings)["peak_bytes"] - large.stat().st_size
    assert extra < 32 << 20  # a second copy of the weights would be 48 MiB


def started(model: Path, settings: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """What an engine with these settings says of its start in a process of its own."""
    program = f"""
        import json
        from orin_llm.bench.own_start import start
        from orin_llm.engine import EngineConfig
        config = EngineConfig(n_ctx=64, threads=1, gpu_layers=0, publish=False, {settings})
        print(json.dumps(start({str(model)!r}, config, [5, 6])))
    """
    done = run(python(program), env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
