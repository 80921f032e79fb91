"""The one file that leaves the machine: every text in it has passed the redaction."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from board_check.leaks import leaks
from board_check.redact import Redactor
from board_check.secret import KINDS
from orin_llm.errors import OrinError
from orin_llm.host.disk import replacing

NAME = "board-check"
_MOST_BYTES = 512 << 10  # of a text; of a longer one the beginning and the end
_MOST_JSON_BYTES = 4 << 20  # which cannot be cut
_README = """\
What `scripts/board_check.sh` of orin-llm has found on a machine.

SUMMARY.txt       the checklist: what passed, failed, was not run, and what to do
record.json       what every step found, its times and commands
collected/        facts of the machine, tegrastats' lines, reports, a trace
logs/, gpu_check/ what the programs printed

Taken out before anything was written here, and replaced by placeholders such as <serial-1> (the
same value has the same one everywhere), `~` (a user's folder) and <checkout>:

{removed}
Names of users and hosts that are ordinary words (`orin`, `user`), or have one or two letters, are
taken out in paths, addresses and where a label stands before them, and not elsewhere. A number of
another device, that no label shows, is not known to be one.

Still in it: names of model files, versions, sizes, times, dates, the time zone's offset.
Look at it before you send it.
"""


@dataclass(frozen=True)
class Archive:
    """Where it is, and the names and sizes in bytes of what is in it."""

    path: Path
    files: dict[str, int]


def write_archive(
    folder: Path, texts: dict[str, str], sources: dict[str, list[Path]], redactor: Redactor
) -> Archive:
    """Write `folder`/board-check.tar.gz whole, or leave the one that was there.

    Args:
        texts: by name; they are redacted, too.
        sources: files by the folder that they have in the archive.

    Raises:
        OrinError: a value that is known to be of this machine is in what was written.
        OSError: it cannot be written.
    """
    found = {name: _clean(text, redactor) for name, text in texts.items()}
    for place, paths in sources.items():
        for path in sorted(paths):
            name = redactor.redact(f"{place}/{path.name}")
            found[name] = _clean(_read(path), redactor)
    counts = redactor.counts
    removed = "".join(f"  {counts[kind]:6}  {KINDS[kind]}\n" for kind in KINDS if counts[kind])
    readme = _README.format(removed=removed or "  nothing\n")
    found["README.txt"] = _clean(readme, redactor)
    path = folder / f"{NAME}.tar.gz"
    with replacing(path) as part:
        _write(part, found)
        _require_clean(part, redactor)
    return Archive(path, {name: len(text.encode()) for name, text in found.items()})


def _clean(text: str, redactor: Redactor) -> str:
    clean = redactor.redact(text)
    if kinds := leaks(clean, redactor.secrets):
        return f"(left out: {', '.join(kinds)} in it could not be taken out)\n"
    return clean


def _require_clean(path: Path, redactor: Redactor) -> None:
    """All bytes of the file as it will be sent, names and headers too."""
    text = gzip.decompress(path.read_bytes()).decode(errors="replace")
    if kinds := leaks(text, redactor.secrets):
        raise OrinError(
            f"{', '.join(kinds)} of this machine would be in the archive, so none is written: a"
            f" fault of this program. What was found stays in {path.parent} as it is; it has names"
            " and serial numbers: report this line, not those files"
        )


def _read(path: Path) -> str:
    """A file's text, cut in the middle where it is long."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return f"(cannot be read: {error.strerror})\n"
    if b"\0" in data[:4096]:
        return f"(left out: {len(data)} bytes that are no text)\n"
    is_json = path.suffix == ".json" or data[:1] in (b"{", b"[")
    if len(data) > (_MOST_JSON_BYTES if is_json else _MOST_BYTES):
        if is_json:
            return f"(left out: {len(data)} bytes)\n"
        half = _MOST_BYTES // 2
        # Whole lines: half a name would not be known.
        begin, end = data[:half].rpartition(b"\n")[0], data[-half:].partition(b"\n")[2]
        data = begin + b"\n(what was between is left out)\n" + end
    return data.decode(errors="replace")


def _write(path: Path, texts: dict[str, str]) -> None:
    """Without owners, and without the name that gzip would put in."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, text in sorted(texts.items()):
            data = text.encode()
            member = tarfile.TarInfo(f"{NAME}/{name}")
            member.size, member.mtime, member.mode = len(data), int(time.time()), 0o644
            tar.addfile(member, io.BytesIO(data))


def listing(archive: Archive) -> Iterator[str]:
    """What is printed of it."""
    for name, size in sorted(archive.files.items()):
        yield f"  {size / 1e3:8.1f} kB  {name}"
    size = archive.path.stat().st_size
    yield f"archive: {archive.path} ({size / 1e3:.0f} kB, {len(archive.files)} files)"
    yield "Look at it before you send it: README.txt in it says what was taken out."
