"""Pulls by the command itself: stopped, killed, and two at a time."""

from __future__ import annotations

import hashlib
import subprocess
import time

from file_server import Served, Server
from models_support import TINY, Recorder, everything, orin_llm, store_environment
from processes import CLI, interrupt, start

from orin_llm.models.pull import pull
from orin_llm.models.store import Store

DIGEST = hashlib.sha256(TINY).hexdigest()


def wait_for(condition: object, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


def start_pull(url: str, store: Store) -> subprocess.Popen[str]:
    return start([*CLI, "models", "pull", url], env=store_environment(store.root))


def test_ctrl_c_leaves_a_part_that_the_next_pull_continues(server: Server, store: Store) -> None:
    served = Served(TINY, pause_s=0.3)
    url = server.add("/m.gguf", served)
    process = start_pull(url, store)
    wait_for(lambda: any(p.bytes > 20_000 for p in store.partials()), process)
    _, errors = interrupt(process)
    assert process.returncode == 130
    assert "are kept, pull again to go on" in errors and "Traceback" not in errors
    assert store.names() == []
    assert everything(store) == [
        f".partial/m/{name}" for name in ("m.gguf.part", "m.gguf.part.json", "source")
    ]
    served.pause_s = 0
    done = orin_llm("models", "pull", url, store=store.root)
    assert done.returncode == 0, done.stderr
    assert server.ranges_asked()[-1].startswith("bytes=")
    assert store.path("m").read_bytes() == TINY
    assert everything(store) == ["m/m.gguf", "m/manifest.json"]


def test_two_pulls_of_one_model_fetch_it_once(server: Server, store: Store) -> None:
    url = server.add("/m.gguf", Served(TINY, pause_s=0.1))
    first = start_pull(url, store)
    wait_for(lambda: store.partials(), first)
    second = start_pull(url, store)
    results = [process.communicate(timeout=60) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0]
    assert len(server.requests) == 1
    assert "waiting: m is being pulled already" in results[1][1]
    assert results[0][0] == results[1][0] == f"{store.path('m')}\n"


def test_a_killed_pull_is_continued(server: Server, store: Store) -> None:
    served = Served(TINY, pause_s=0.3)
    url = server.add("/m.gguf", served)
    process = start_pull(url, store)
    wait_for(lambda: any(p.bytes > 20_000 for p in store.partials()), process)
    process.kill()
    process.communicate()
    served.pause_s = 0
    assert pull(url, store=store, reporter=Recorder()).manifest.files[0].sha256 == DIGEST
    assert server.ranges_asked()[-1].startswith("bytes=")
