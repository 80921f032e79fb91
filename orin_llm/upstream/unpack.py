"""Takes single files and folders out of the source archive."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from orin_llm.host.locking import file_lock
from orin_llm.upstream.fetch import PIN, Pin, UpstreamError, cache_dir, fetch_sdist, no_report
from orin_llm.upstream.folder import copy_sources, source_folder

LLAMA_ROOT = "vendor/llama.cpp"


def extract(archive: Path, wanted: Callable[[str], bool], into: Path) -> int:
    """Unpack the regular files for which `wanted(path)` holds, and return how many there were.

    Paths are relative to llama.cpp's own root in the archive; so are the files below `into`.
    """
    count = 0
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            path = _inside_llama(member.name)
            if path is None or not member.isfile() or not wanted(path):
                continue
            source = tar.extractfile(member)
            assert source is not None  # a regular file always has contents
            target = into / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            count += 1
    return count


def take_sources(
    wanted: Callable[[str], bool],
    into: Path,
    pin: Pin = PIN,
    cache: Path | None = None,
    report: Callable[[str], None] = no_report,
) -> int:
    """Copy the files for which `wanted(path)` holds; return how many there were.

    They come from the folder that ORIN_LLM_SOURCE names, else from the archive, which is fetched
    where the cache has none. Raises UpstreamError.
    """
    if folder := source_folder():
        report(f"taking the sources of {pin.package} {pin.version} from {folder}")
        return copy_sources(folder, pin, wanted, into)
    return extract(fetch_sdist(pin, cache, report), wanted, into)


def _inside_llama(member: str) -> str | None:
    """`top/vendor/llama.cpp/src/a.h` -> `src/a.h`; None for a path that lies elsewhere."""
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts:
        return None
    inside = "/".join(path.parts[1:])
    prefix = LLAMA_ROOT + "/"
    return inside[len(prefix) :] if inside.startswith(prefix) else None


def vocab_file(
    name: str,
    pin: Pin = PIN,
    cache: Path | None = None,
    report: Callable[[str], None] = no_report,
) -> Path:
    """Path of a vocabulary-only GGUF that ships with the sources, such as `llama-bpe`.

    `report` is told of a download. Raises UpstreamError when the sources cannot be had or hold no
    vocabulary of that name.
    """
    cache = cache or cache_dir()
    folder = cache / "vocab" / pin.version
    file_name = f"ggml-vocab-{name}.gguf"
    target = folder / file_name
    waiting = "waiting for another process: unpacking of a vocabulary"
    with file_lock(folder / ".lock", lambda: report(waiting)):
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=folder, prefix="unpack-") as scratch:
            member = f"models/{file_name}"
            if not take_sources(lambda path: path == member, Path(scratch), pin, cache, report):
                raise UpstreamError(
                    f"{source_folder() or pin.archive_name} holds no vocabulary named {name!r}"
                )
            os.replace(Path(scratch) / member, target)
    return target
