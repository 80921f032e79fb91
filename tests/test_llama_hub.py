"""Llama.from_pretrained against a small server that speaks the hub's endpoints, and its cache.

huggingface_hub reads its settings once, when it is imported, so each test is a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import Served, Server, serving
from gguf_bytes import tiny_llama_bytes
from processes import environment, python, run

REPO = "owner/tiny-GGUF"
COMMIT = "b" * 40
PROGRAM = """
import sys
from orin_llm import Llama
from orin_llm.errors import OrinError
try:
    with Llama.from_pretrained(*sys.argv[1:], n_ctx=32, n_threads=1, chat_format="chatml") as llama:
        print(llama.model_path, llama.n_ctx())
except OrinError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.fixture
def hub() -> Iterator[Server]:
    with serving() as running:
        yield running


def publish(hub: Server, files: dict[str, bytes]) -> None:
    siblings = [{"rfilename": name} for name in files]
    info = json.dumps({"id": REPO, "sha": COMMIT, "siblings": siblings, "tags": []})
    hub.add(f"/api/models/{REPO}", Served(info.encode(), content_type="application/json"))
    for name, data in files.items():
        digest = hashlib.sha256(data).hexdigest()
        hub.add(f"/cdn/{digest}", Served(data, etag=f'"{digest}"'))
        location = {
            # Redirects to the same host are followed at once, without a look at the headers.
            "Location": hub.url.replace("127.0.0.1", "localhost") + f"/cdn/{digest}",
            "X-Repo-Commit": COMMIT,
            "X-Linked-Etag": f'"{digest}"',
            "X-Linked-Size": str(len(data)),
        }
        hub.add(f"/{REPO}/resolve/main/{name}", Served(b"", answers=[(302, location)] * 9))


def from_pretrained(
    home: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    command = python(PROGRAM, *arguments)
    return run(command, env=environment(HF_HOME=str(home), **variables))


def test_the_one_file_that_fits_a_pattern_is_fetched_and_loaded(
    hub: Server, tmp_path: Path
) -> None:
    tiny = tiny_llama_bytes()
    publish(hub, {"README.md": b"#", "tiny-Q8_0.gguf": tiny, "tiny-F16.gguf": b"no"})
    done = from_pretrained(tmp_path, REPO, "*Q8_0.gguf", HF_ENDPOINT=hub.url)
    assert done.returncode == 0, done.stderr
    path, n_ctx = done.stdout.split()
    assert Path(path).read_bytes() == tiny
    assert n_ctx == "32"
    # What is in the cache needs no hub.
    with serving() as nobody:
        done = from_pretrained(tmp_path, REPO, "tiny-Q8_0.gguf", HF_ENDPOINT=nobody.url)
        assert (done.returncode, done.stdout) == (0, f"{path} 32\n"), done.stderr
    done = from_pretrained(tmp_path, REPO, "tiny-Q8_0.gguf", HF_HUB_OFFLINE="1")
    assert (done.returncode, done.stdout) == (0, f"{path} 32\n"), done.stderr


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("*Q4*", "no file of owner/tiny-GGUF fit '*Q4*', expected one; there are: a.gguf, b.gguf"),
        ("*.g*", "2 files of owner/tiny-GGUF fit '*.g*', expected one; there are: a.gguf, b.gguf"),
    ],
)
def test_a_pattern_that_not_one_file_fits_lists_them(
    hub: Server, tmp_path: Path, pattern: str, message: str
) -> None:
    publish(hub, {"README.md": b"#", "a.gguf": b"", "b.gguf": b""})
    done = from_pretrained(tmp_path, REPO, pattern, HF_ENDPOINT=hub.url)
    assert done.returncode == 1
    assert done.stderr == f"UsageError: {message}\n"


def test_what_cannot_be_fetched_is_one_error_with_the_names(hub: Server, tmp_path: Path) -> None:
    for arguments, variables, message in (
        ((REPO, "a.gguf"), {"HF_ENDPOINT": hub.url}, f"hub cannot be reached for {REPO}"),
        ((REPO, "*.gguf"), {"HF_ENDPOINT": hub.url}, f"OrinError: the hub refuses {REPO}"),
        ((REPO, "a.gguf"), {"HF_HUB_OFFLINE": "1"}, f"{REPO} is not in the hub's cache"),
        ((REPO, "*.gguf"), {"HF_HUB_OFFLINE": "1"}, f"{REPO} is not in the hub's cache"),
        (("no/such/name", "a.gguf"), {}, "UsageError: 'no/such/name' is no repository name"),
    ):
        done = from_pretrained(tmp_path, *arguments, **variables)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_no_hub_at_all_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    with serving() as gone:
        pass
    done = from_pretrained(tmp_path, REPO, "*.gguf", HF_ENDPOINT=gone.url)
    assert done.returncode == 1
    assert f"OrinError: the model hub cannot be reached for {REPO}" in done.stderr
    assert "Traceback" not in done.stderr
