"""Collecting an importance matrix over a text, window by window, in a file that can be resumed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from orin_llm import _native
from orin_llm.engine.fingerprint import model_fingerprint
from orin_llm.engine.loaded_model import LoadedModel
from orin_llm.errors import OrinError, UsageError
from orin_llm.models.reporter import Progress, Reporter
from orin_llm.quality.imatrix import Collected, Entry, Imatrix, sorted_entries
from orin_llm.quality.imatrix_file import write_imatrix
from orin_llm.quality.imatrix_merge import chunk_count
from orin_llm.quality.windows import Windows

SAVE_EVERY = 10  # windows, llama.cpp's default


@dataclass(frozen=True)
class Job:
    """What is collected.

    Attributes:
        windows: of the text, all of them.
        n_windows: how many are read, from the first.
        text_name: what the file calls the text.
        with_output: the output matrix, too (where the model has one of its own).
        threads: CPU threads.
        save_every: windows after which the file is written again.
    """

    windows: Windows
    n_windows: int
    text_name: str
    with_output: bool = False
    threads: int = 1
    save_every: int = SAVE_EVERY

    def start(self, model: LoadedModel, before: Imatrix | None = None) -> Imatrix:
        """Where a collection begins: with nothing, or with what other texts have given."""
        names = (*(before.datasets if before else ()), self.text_name)
        collected = Collected(
            text_sha256=hashlib.sha256(self.windows.tokens.astype("<i4").tobytes()).hexdigest(),
            model=model_fingerprint(model.model_path),
            windows_done=0,
            windows_total=self.n_windows,
            with_output=self.with_output,
        )
        entries = before.entries if before else {}
        chunks = before.chunk_count if before else 0
        return Imatrix(entries, names, chunks, self.windows.window_tokens, collected=collected)

    def resume(self, model: LoadedModel, file: Path, found: Imatrix) -> Imatrix:
        """Where a collection goes on.

        Raises:
            UsageError: `found`, which is what `file` holds, is of another text, model or size of
                windows, or no collection of ours.
        """
        fresh = self.start(model)
        was, now = found.collected, fresh.collected
        assert now is not None
        if was is None:
            raise UsageError(f"{file} does not say what it was collected of: it cannot be resumed")
        differences = {
            f"windows of {found.chunk_size} tokens (-c/--ctx-size)": (
                found.chunk_size == fresh.chunk_size
            ),
            "another text, or one that was read as other tokens": was.text_sha256
            == now.text_sha256,
            "another model": was.model == now.model,
            "other tensors (--process-output)": was.with_output == now.with_output,
        }
        for what, is_same in differences.items():
            if not is_same:
                raise UsageError(
                    f"{file} was collected over {what}: repeat the flags of then, or begin anew "
                    "with --force in place of --resume"
                )
        done = replace(was, windows_total=max(self.n_windows, was.windows_done))
        return replace(found, collected=done)


@dataclass(frozen=True)
class Collection:
    """A collection that came to its end.

    Attributes:
        windows: read by this run; elapsed_ms: that they took.
    """

    imatrix: Imatrix
    windows: int
    elapsed_ms: float


def collect(
    model: LoadedModel, job: Job, begin: Imatrix, out: Path, reporter: Reporter | None = None
) -> Collection:
    """Read the windows that `begin` has not seen, and write the file `out` now and then.

    Whatever ends it early, Ctrl-C included, what was read by then is in the file.

    Raises:
        OrinError: a window could not be computed, or the file not be written.
    """
    report = reporter or Reporter()
    collector = _native.ImatrixCollector(
        model.model,
        n_ctx=begin.chunk_size,
        threads=job.threads,
        process_output=job.with_output,
    )
    for name, entry in begin.entries.items():
        collector.put(name.encode("utf-8", "surrogateescape"), entry.sums, entry.counts)
    state = _State(begin, collector, out, report)
    began = time.monotonic()
    first = state.done
    with _kept(state):
        while state.done < state.total:
            report.progress(state.progress())
            collector.add_window(job.windows.whole(state.done))
            state.done += 1
            if (state.done - first) % job.save_every == 0 and state.done < state.total:
                state.try_to_save()
        report.progress(state.progress())
    elapsed_ms = 1e3 * (time.monotonic() - began)
    state.save()
    return Collection(state.imatrix(), state.done - first, elapsed_ms)


class _State:
    """How far it is, and the file with it."""

    def __init__(
        self, begin: Imatrix, collector: _native.ImatrixCollector, out: Path, report: Reporter
    ) -> None:
        assert begin.collected is not None
        self.done = self.saved = begin.collected.windows_done
        self.total = begin.collected.windows_total
        self.out = out
        self._begin = begin
        self._collected = begin.collected
        self._collector = collector
        self._report = report

    def progress(self) -> Progress:
        return Progress("importance matrix", self.done, self.total, "windows")

    def imatrix(self) -> Imatrix:
        entries = {name: Entry(*found) for name, found in self._collector.entries().items()}
        return replace(
            self._begin,
            entries=sorted_entries(entries),
            chunk_count=chunk_count(entries, self._begin.chunk_size),
            collected=replace(self._collected, windows_done=self.done),
        )

    def save(self) -> None:
        write_imatrix(self.out, self.imatrix(), force=True)
        self.saved = self.done

    def try_to_save(self) -> bool:
        """Work goes on without: there may be room on the disk later."""
        try:
            self.save()
        except OrinError as error:
            self._report.message(f"not saved after {self.done} windows: {error}")
            return False
        return True

    def keep(self) -> None:
        """Save what is not saved, and say how to go on."""
        is_kept = self.done == self.saved or self.try_to_save()
        if is_kept and self.saved > 0:
            self._report.message(
                f"stopped after {self.saved} of {self.total} windows, which are in {self.out}: "
                "the same command with --resume reads the rest"
            )


@contextmanager
def _kept(state: _State) -> Iterator[None]:
    try:
        yield
    except BaseException:
        state.keep()
        raise
