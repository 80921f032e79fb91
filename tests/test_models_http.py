"""Downloads over real connections: resumed, retried, and never silently wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from file_server import Served, Server, serving
from models_support import Recorder

from orin_llm.errors import ModelFileError, OrinError
from orin_llm.models.reporter import Progress, Reporter
from orin_llm.models.sources import http
from orin_llm.models.sources.http import HttpFile, HttpPolicy, HttpRefused, download

FILE = b"GGUF" + os.urandom(200_000)
IMPATIENT = HttpPolicy(timeout_s=1.0, attempts=3, pause_s=0.01)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def get(wanted: str | HttpFile, target: Path, reporter: Reporter | None = None) -> None:
    file = HttpFile(wanted) if isinstance(wanted, str) else wanted
    download(file, target, reporter or Recorder(), IMPATIENT)


def leave_part(target: Path, url: str, data: bytes, validator: str = '"one"') -> None:
    target.with_name("model.gguf.part").write_bytes(data)
    state = {"url": url, "validator": validator}
    target.with_name("model.gguf.part.json").write_text(json.dumps(state))


def test_a_file_arrives_whole_and_nothing_else_is_left(server: Server, target: Path) -> None:
    get(server.add("/m.gguf", Served(FILE)), target)
    assert target.read_bytes() == FILE
    assert [path.name for path in target.parent.iterdir()] == ["model.gguf"]


def test_progress_ends_at_the_total(server: Server, target: Path) -> None:
    seen = Recorder()
    get(server.add("/m.gguf", Served(FILE)), target, seen)
    assert seen.steps[0].done == 0
    assert seen.steps[-1] == Progress("fetching model.gguf", len(FILE), len(FILE))


def test_a_dropped_connection_is_continued_where_it_broke(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE, drops=[50_000, 30_000]))
    seen = Recorder()
    get(url, target, seen)
    assert target.read_bytes() == FILE
    assert server.ranges_asked() == ["", "bytes=50000-", "bytes=80000-"]
    assert len(seen.messages) == 2 and "trying again" in seen.messages[0]


def test_attempts_are_counted_since_the_last_byte_that_came(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE, drops=[10_000] * 10))
    get(url, target)  # ten drops, though three failures in a row would end it
    assert target.read_bytes() == FILE


def test_it_gives_up_after_failures_without_progress_and_keeps_the_part(
    server: Server, target: Path
) -> None:
    url = server.add("/m.gguf", Served(FILE, drops=[50_000, 0, 0, 0, 0]))
    with pytest.raises(OrinError, match=r"gave up after 3 attempts.*50\.0 kB are kept"):
        get(url, target)
    assert target.with_name("model.gguf.part").read_bytes() == FILE[:50_000]
    assert not target.exists()


def test_a_partial_file_is_continued_by_a_later_download(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE))
    leave_part(target, url, FILE[:70_000])
    get(url, target)
    assert target.read_bytes() == FILE
    ((_, headers),) = server.requests
    assert headers["Range"] == "bytes=70000-" and headers["If-Range"] == '"one"'


def test_last_modified_serves_where_there_is_no_strong_etag(server: Server, target: Path) -> None:
    date = "Tue, 05 Nov 2024 10:00:00 GMT"
    url = server.add("/m.gguf", Served(FILE, etag='W/"weak"', last_modified=date, drops=[40_000]))
    get(url, target)
    assert target.read_bytes() == FILE
    assert server.requests[1][1]["If-Range"] == date


def test_a_changed_etag_starts_over_and_says_so(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE, etag='"two"'))
    leave_part(target, url, b"GGUF" + b"old" * 10_000)
    seen = Recorder()
    get(url, target, seen)
    assert target.read_bytes() == FILE
    assert any("starting over" in message for message in seen.messages)


def test_an_etag_that_changes_during_a_retry_starts_over(server: Server, target: Path) -> None:
    served = Served(b"GGUF" + b"old" * 50_000, drops=[50_000])

    def change(_headers: object) -> None:
        if len(server.requests) == 2:
            served.data, served.etag = FILE, '"two"'

    served.on_request = change
    get(server.add("/m.gguf", served), target)
    assert target.read_bytes() == FILE


def test_without_anything_to_recognise_the_file_by_it_starts_over(
    server: Server, target: Path
) -> None:
    url = server.add("/m.gguf", Served(FILE, etag=""))
    leave_part(target, url, b"GGUF" + b"x" * 10_000, validator="")
    get(url, target)
    assert target.read_bytes() == FILE
    assert server.ranges_asked() == [""]


def test_a_known_checksum_is_enough_to_continue(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE, etag=""))
    leave_part(target, "http://elsewhere/m.gguf", FILE[:1000], validator="")
    get(HttpFile(url, verified=True), target)
    assert target.read_bytes() == FILE
    assert server.ranges_asked() == ["bytes=1000-"]


def test_a_server_without_ranges_is_read_from_the_start(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE, ranges=False))
    leave_part(target, url, FILE[:70_000])
    get(url, target)
    assert target.read_bytes() == FILE


def test_a_part_that_is_complete_already_is_accepted(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE))
    leave_part(target, url, FILE)
    get(url, target)
    assert target.read_bytes() == FILE


def test_a_part_longer_than_the_file_is_dropped(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE))
    leave_part(target, url, FILE + b"more")
    get(url, target)
    assert target.read_bytes() == FILE


def test_a_content_length_beyond_the_data_counts_as_a_broken_connection(
    server: Server, target: Path
) -> None:
    url = server.add("/m.gguf", Served(FILE, ranges=False, length=len(FILE) + 1000))
    with pytest.raises(OrinError, match="connection ended after"):
        get(url, target)
    assert not target.exists()


def test_an_answer_without_length_is_read_to_its_end(server: Server, target: Path) -> None:
    get(server.add("/m.gguf", Served(FILE, length=-1)), target)
    assert target.read_bytes() == FILE


def test_a_size_other_than_expected_is_refused_before_it_is_read(
    server: Server, target: Path
) -> None:
    url = server.add("/m.gguf", Served(FILE))
    with pytest.raises(OrinError, match=f"offers {len(FILE)} bytes where 10 were expected"):
        get(HttpFile(url, bytes=10), target)


def test_more_bytes_than_expected_are_not_written(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE, length=-1))
    with pytest.raises(OrinError, match="more than the 1000 bytes"):
        get(HttpFile(url, bytes=1000), target)
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "says"),
    [(404, "no such file"), (401, "needs a login"), (403, "not allowed"), (410, "is gone")],
)
def test_a_refusal_names_the_status_and_what_to_do(
    server: Server, target: Path, status: int, says: str
) -> None:
    url = server.add("/m.gguf", Served(FILE, answers=[(status, {})]))
    with pytest.raises(HttpRefused, match=says) as caught:
        get(url + "?signature=secret", target)
    assert caught.value.status == status and str(status) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_busy_server_is_asked_again_after_the_pause_it_wants(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(http.time, "sleep", pauses.append)
    url = server.add("/m.gguf", Served(FILE, answers=[(503, {"Retry-After": "7"}), (429, {})]))
    get(url, target)
    assert target.read_bytes() == FILE
    assert pauses == [7.0, 0.02]


def test_an_endless_retry_after_is_not_obeyed(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(http.time, "sleep", pauses.append)
    url = server.add("/m.gguf", Served(FILE, answers=[(503, {"Retry-After": "999999"})]))
    get(url, target)
    assert pauses == [http.RETRY_AFTER_LIMIT_S]


def test_silence_ends_as_a_time_out(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE, pause_s=30))
    with pytest.raises(OrinError, match="gave up after 2 attempts"):
        download(HttpFile(url), target, Recorder(), HttpPolicy(0.1, 2, 0.01))


def test_this_machine_is_not_asked_through_a_proxy(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://nowhere.invalid:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    get(server.add("/m.gguf", Served(FILE)), target)
    assert target.read_bytes() == FILE


def test_a_slow_server_is_waited_for(server: Server, target: Path) -> None:
    get(server.add("/m.gguf", Served(FILE, pause_s=0.02)), target)
    assert target.read_bytes() == FILE


def test_no_connection_at_all_fails_at_once(target: Path) -> None:
    with serving() as gone:
        url = gone.url + "/m.gguf"
    with pytest.raises(OrinError, match="no connection"):
        get(url, target)


def test_an_unknown_host_is_named(target: Path) -> None:
    with pytest.raises(OrinError, match=r"nowhere\.invalid"):
        get("http://nowhere.invalid/m.gguf", target)


@pytest.mark.parametrize(
    ("data", "content_type", "says"),
    [
        (b"<!DOCTYPE html><html>", "text/html; charset=utf-8", "a web page"),
        (b"  <html><body>sign in", "application/octet-stream", "a web page"),
        (b"version https://git-lfs", "text/plain", "Git LFS pointer"),
        (b"PK\x03\x04zipped", "application/zip", r"begins b'PK\\x03\\x04'"),
        (b"", "application/octet-stream", "an empty file"),
    ],
)
def test_what_is_no_gguf_is_refused_at_its_first_bytes(
    server: Server, target: Path, data: bytes, content_type: str, says: str
) -> None:
    url = server.add("/m.gguf", Served(data, content_type=content_type))
    with pytest.raises(ModelFileError, match=says):
        get(url, target)


def test_a_compressed_answer_is_refused(server: Server, target: Path) -> None:
    url = server.add("/m.gguf", Served(FILE, encoding="gzip"))
    with pytest.raises(OrinError, match="compressed"):
        get(url, target)


def test_a_full_disk_is_noticed_before_anything_is_written(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orin_llm.host.disk.SPARE_BYTES", 1 << 60)
    with pytest.raises(OrinError, match=r"not enough room in .*200\.0 kB are needed"):
        get(server.add("/m.gguf", Served(FILE)), target)
    assert list(target.parent.iterdir()) == []
