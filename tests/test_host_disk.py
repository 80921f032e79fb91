"""Sizes of folders on a real disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orin_llm.host.disk import folder_bytes


def test_a_folder_has_the_bytes_of_all_files_below_it(tmp_path: Path) -> None:
    assert folder_bytes(tmp_path) == folder_bytes(tmp_path / "absent") == 0
    (tmp_path / "one").write_bytes(b"1234")
    (tmp_path / "deep" / "down").mkdir(parents=True)
    (tmp_path / "deep" / "down" / "two").write_bytes(b"123")
    assert folder_bytes(tmp_path) == 7


def test_a_file_that_vanishes_while_it_is_measured_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "download.part").write_bytes(b"1234")
    lstat = os.lstat

    def removed_first(path: str) -> os.stat_result:
        os.unlink(path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", removed_first)
    assert folder_bytes(tmp_path) == 0
