"""The file of a collection: nothing of it is lost, and it is gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imatrix_cases import random_experts
from imatrix_collecting import N_CTX, collected, open_model, text_windows
from models_support import Recorder

from orin_llm.engine.loaded_model import LoadedModel
from orin_llm.errors import OrinError, UsageError
from orin_llm.models.reporter import Progress
from orin_llm.quality import imatrix_collect
from orin_llm.quality.imatrix_collect import Job, collect
from orin_llm.quality.imatrix_file import read_imatrix
from orin_llm.quality.windows import Windows


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> LoadedModel:
    return open_model(tiny_model)


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imatrix") / "experts.gguf"
    path.write_bytes(random_experts().data)
    return path


class StopsAt(Recorder):
    """Ctrl-C when so many windows are done."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._n = n

    def progress(self, progress: Progress) -> None:
        super().progress(progress)
        if progress.done == self._n:
            raise KeyboardInterrupt


def job(windows: Any, **more: Any) -> Job:
    return Job(Windows(windows, None), len(windows), "t.txt", **more)


def test_a_resumed_collection_is_the_uninterrupted_one_bit_for_bit(
    model: LoadedModel, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole.gguf", tmp_path / "parts.gguf"
    seven = job(text_windows(7), save_every=2)
    collect(model, seven, seven.start(model), whole)
    reporter = StopsAt(3)
    with pytest.raises(KeyboardInterrupt):
        collect(model, seven, seven.start(model), parts, reporter)
    assert "stopped after 3 of 7 windows" in reporter.messages[-1]
    assert "--resume" in reporter.messages[-1]
    found = read_imatrix(parts)
    assert found.collected is not None and found.collected.windows_done == 3
    assert found.entries["blk.0.attn_q.weight"].counts.tolist() == [3 * N_CTX]
    assert found.chunk_count == 3
    begin = seven.resume(model, parts, found)
    done = collect(model, seven, begin, parts)
    assert done.windows == 4
    assert parts.read_bytes() == whole.read_bytes()


def test_a_finished_collection_has_nothing_left_unless_more_windows_are_asked_for(
    model: LoadedModel, tmp_path: Path
) -> None:
    path, windows = tmp_path / "i.gguf", text_windows(4)
    short = Job(Windows(windows, None), 2, "t.txt")
    collect(model, short, short.start(model), path)
    again = collect(model, short, short.resume(model, path, read_imatrix(path)), path)
    assert (again.windows, again.imatrix.chunk_count) == (0, 2)
    longer = job(windows)
    more = collect(model, longer, longer.resume(model, path, read_imatrix(path)), path)
    assert (more.windows, more.imatrix.chunk_count) == (2, 4)


def test_another_text_model_window_or_choice_of_tensors_is_not_resumed(
    model: LoadedModel, experts: Path, tmp_path: Path
) -> None:
    path, windows = tmp_path / "i.gguf", text_windows(2)
    collect(model, job(windows), job(windows).start(model), path)
    found = read_imatrix(path)
    other = windows.copy()
    other[1, 5] += 1
    for wrong, loaded, message in (
        (job(other), model, "another text"),
        (job(windows), open_model(experts), "another model"),
        (job(windows.reshape(4, -1)), model, "windows of 48 tokens"),
        (job(windows, with_output=True), model, "--process-output"),
    ):
        with pytest.raises(UsageError, match=message):
            wrong.resume(loaded, path, found)
    bare = imatrix_collect.replace(found, collected=None)
    with pytest.raises(UsageError, match="cannot be resumed"):
        job(windows).resume(model, path, bare)


def test_the_first_token_of_a_window_gives_way_to_bos(model: LoadedModel, tmp_path: Path) -> None:
    windows = text_windows(2)
    with_bos = Job(Windows(windows, 1), 2, "t.txt")
    done = collect(model, with_bos, with_bos.start(model), tmp_path / "i.gguf")
    windows[:, 0] = 1
    for name, (sums, _) in collected(model, windows).items():
        assert (done.imatrix.entries[name].sums == sums).all()


def test_what_other_texts_have_given_is_added_to(model: LoadedModel, tmp_path: Path) -> None:
    first, second = job(text_windows(2)), job(text_windows(1, seed=5))
    one = collect(model, first, first.start(model), tmp_path / "1.gguf").imatrix
    both = collect(model, second, second.start(model, one), tmp_path / "2.gguf").imatrix
    assert both.datasets == ("t.txt", "t.txt") and both.chunk_count == 3
    alone = collected(model, np.concatenate([text_windows(2), text_windows(1, seed=5)]))
    for name, (sums, _) in alone.items():
        assert (both.entries[name].sums == sums).all()


def test_a_disk_that_fills_up_ends_nothing_before_the_end(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, writes = tmp_path / "i.gguf", 0

    def write(*arguments: Any, **more: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == 1:
            raise OrinError("the disk filled up")
        real(*arguments, **more)

    real = imatrix_collect.write_imatrix
    monkeypatch.setattr(imatrix_collect, "write_imatrix", write)
    reporter, three = Recorder(), job(text_windows(3), save_every=2)
    collect(model, three, three.start(model), path, reporter)
    assert reporter.messages == ["not saved after 2 windows: the disk filled up"]
    assert read_imatrix(path).chunk_count == 3


def test_an_error_in_a_window_keeps_those_before(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter, three = Recorder(), job(text_windows(3))
    three.windows.tokens[2, 0] = 5000  # no such token
    with pytest.raises(OrinError):
        collect(model, three, three.start(model), tmp_path / "i.gguf", reporter)
    assert read_imatrix(tmp_path / "i.gguf").chunk_count == 2
