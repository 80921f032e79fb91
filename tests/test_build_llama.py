"""The keyed build of llama.cpp in the cache survives kills and is shared by concurrent builds.

A small stand-in with llama.cpp's layout is built by the real code, cmake and ninja included.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from native.cleanup import remove_unused
from orin_llm.upstream import Pin, extract, write_hashes

ROOT = Path(__file__).resolve().parent.parent
SOURCES = 8

STAND_IN = f"""
cmake_minimum_required(VERSION 3.14)
project(stand_in CXX)
add_library(llama STATIC)
foreach(number RANGE 1 {SOURCES})
    target_sources(llama PRIVATE src/part${{number}}.cpp)
endforeach()
"""

PART = "#include <string>\nstd::string part{0}(const char *s) {{ return std::string(s) + s; }}"

MANIFEST = """
[[patch]]
id = "hook"
file = "src/part1.cpp"
lines = 1
sha256 = "{0}"
place = "after"
text = '#include "hook.h"'
"""

DRIVER = """
import json, sys
from pathlib import Path
from native.cuda import CudaPlan
from native.llama import LlamaBuild, ensure_llama
from native.toolchain import find_toolchain
from orin_llm.upstream import Pin

work, pin = Path(sys.argv[1]), Pin(**json.loads(sys.argv[2]))
print(ensure_llama(LlamaBuild(
    pin, work / "patches" / "manifest.toml", work / "include", find_toolchain(), CudaPlan(False, "")
), work / "cache"))
"""


class Project:
    """A pinned archive of the stand-in in a cache, a manifest, and a process that builds."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.builds = work / "cache" / "llama"
        members = {"CMakeLists.txt": STAND_IN, "LICENSE": "", "models/big.gguf": "not needed"}
        members |= {f"src/part{n}.cpp": PART.format(n) for n in range(1, SOURCES + 1)}
        archive = work / "cache" / "upstream" / "stand_in-1.0.tar.gz"
        archive.parent.mkdir(parents=True)
        with tarfile.open(archive, "w:gz") as tar:
            for name, text in members.items():
                info = tarfile.TarInfo(f"stand_in-1.0/vendor/llama.cpp/{name}")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        self.pin = {
            "package": "stand-in",
            "version": "1.0",
            "sha256": digest,
            "upstream_commit": "0",
        }
        (work / "patches").mkdir()
        anchor = hashlib.sha256(b"#include <string>").hexdigest()
        (work / "patches" / "manifest.toml").write_text(MANIFEST.format(anchor))
        (work / "include").mkdir()
        (work / "include" / "hook.h").write_text("#define ORIN_HOOK 1\n")

    def start(self) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}",
            "CCACHE_DISABLE": "1",
            "CMAKE_BUILD_PARALLEL_LEVEL": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(self.work), json.dumps(self.pin)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self) -> Path:
        """Build to the end and check that the result is whole."""
        output, errors = self.start().communicate()
        assert output, errors
        done = Path(output.strip())
        symbols = subprocess.run(
            ["nm", "--demangle", "--defined-only", str(done / "lib" / "libllama.a")],
            capture_output=True,
            text=True,
        ).stdout
        for number in range(1, SOURCES + 1):
            assert f"T part{number}[abi:cxx11](char const*)" in symbols
        assert '#include "hook.h"' in (done / "src" / "src" / "part1.cpp").read_text()
        assert not (done / "src" / "models").exists()
        return done

    def partial(self) -> Path | None:
        return next(self.builds.glob("*.partial"), None)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def find(partial: Path, pattern: str) -> list[str]:
    """Files below a folder whose contents come and go meanwhile, which Path.glob minds."""
    return glob.glob(f"{partial}/{pattern}", recursive=True)


def has(pattern: str, count: int = 1) -> Callable[[Path], bool]:
    return lambda partial: len(find(partial, pattern)) >= count


STATES = {
    "unpacking": has("*"),
    "patched": has("src"),
    "configuring": has("build/CMakeFiles"),
    "configured": has("configured"),
    "first object": has("build/llama.cpp/**/*.o"),
    "most objects": has("build/llama.cpp/**/*.o", SOURCES - 1),
    "library": has("build/llama.cpp/*.a"),
}


@pytest.mark.parametrize(
    ("state", "whole_group"),
    [*((state, True) for state in STATES), ("first object", False)],
)
def test_a_kill_at_any_time_leaves_a_cache_from_which_the_next_build_succeeds(
    project: Project, state: str, whole_group: bool
) -> None:
    """Of all processes, or of ours alone: then the compilers left behind still hold the lock."""
    process = project.start()
    seen = False
    while not seen and process.poll() is None:
        partial = project.partial()
        seen = partial is not None and STATES[state](partial)
        time.sleep(0.001)
    assert seen or state == "library"  # which soon becomes the finished build
    if whole_group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()
    finished = [path for path in project.builds.iterdir() if path.is_dir()]
    assert all(path.suffix == ".partial" or (path / "lib").is_dir() for path in finished)
    project.finish()
    assert project.partial() is None


def test_a_build_that_was_stopped_goes_on_instead_of_starting_again(project: Project) -> None:
    process = project.start()
    partial = None
    while partial is None or not has("build/**/*.o", SOURCES // 2)(partial):
        partial = project.partial()
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate()
    assert process.returncode != 0
    built_before = {path: os.stat(path).st_mtime_ns for path in find(partial, "build/**/*.o")}
    next_process = project.start()
    rebuilt = set()
    while next_process.poll() is None and partial.exists():
        for path, built in built_before.items():
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_mtime_ns != built:
                    rebuilt.add(path)
        time.sleep(0.005)
    next_process.communicate()
    # The file that was being compiled at the interruption may have been left half written.
    assert len(rebuilt) <= 1
    project.finish()


def test_concurrent_builds_share_one_result(project: Project) -> None:
    processes = [project.start() for _ in range(3)]
    results = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len({output for output, _ in results}) == 1
    assert sum("waiting for another process" in errors for _, errors in results) == 2
    project.finish()


def test_a_change_of_patches_or_hook_headers_is_another_build(project: Project) -> None:
    first = project.finish()
    (project.work / "include" / "hook.h").write_text("#define ORIN_HOOK 2\n")
    second = project.finish()
    manifest = project.work / "patches" / "manifest.toml"
    manifest.write_text(manifest.read_text() + "# another text\n")
    third = project.finish()
    assert len({first, second, third}) == 3
    assert first.is_dir()


def test_a_compiler_error_names_the_log_and_is_not_kept_as_a_build(project: Project) -> None:
    (project.work / "include" / "hook.h").write_text("#error broken on purpose\n")
    _, errors = project.start().communicate()
    assert "broken on purpose" in errors
    assert "build.log" in errors
    assert project.partial() is not None


def test_sources_come_from_a_folder_without_an_archive(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = project.work / "cache" / "upstream" / "stand_in-1.0.tar.gz"
    sources = project.work / "sources"
    extract(archive, lambda path: True, sources)
    write_hashes(sources, Pin(**project.pin))
    archive.unlink()
    monkeypatch.setenv("ORIN_LLM_SOURCE", str(sources))
    project.finish()


def test_a_folder_with_a_changed_file_is_not_built(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = project.work / "sources"
    extract(project.work / "cache/upstream/stand_in-1.0.tar.gz", lambda path: True, sources)
    write_hashes(sources, Pin(**project.pin))
    (sources / "src/part3.cpp").write_text("int changed;")
    monkeypatch.setenv("ORIN_LLM_SOURCE", str(sources))
    process = project.start()
    _, errors = process.communicate()
    assert process.returncode != 0
    assert "src/part3.cpp is not what was unpacked there" in errors
    partial = project.partial()
    assert partial is not None and not (partial / "src").exists()


@pytest.fixture
def old_builds(tmp_path: Path) -> Iterator[Path]:
    for name in ("used", "unused", "unfinished.partial"):
        (tmp_path / name).mkdir()
    long_ago = time.time() - 31 * 24 * 3600
    for name in ("unused", "unfinished.partial"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    yield tmp_path


def test_builds_that_nobody_used_for_long_are_removed(old_builds: Path) -> None:
    remove_unused(old_builds, days=30)
    assert sorted(path.name for path in old_builds.iterdir() if path.is_dir()) == ["used"]


def test_a_build_in_progress_is_not_removed(old_builds: Path) -> None:
    from orin_llm.host.locking import file_lock

    with file_lock(old_builds / "unfinished.lock"):
        remove_unused(old_builds, days=30)
    assert (old_builds / "unfinished.partial").is_dir()
