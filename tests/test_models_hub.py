"""Pulls from a model hub: a small server that speaks the endpoints which huggingface_hub uses.

huggingface_hub reads its settings once, when it is imported, so each pull is a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from file_server import Served, Server, serving
from models_support import TINY, model_with_context, orin_llm, split_model

from orin_llm.errors import ModelFileError
from orin_llm.models.store import Store, resolve

COMMIT = "a" * 40
REPO = "owner/tiny-GGUF"
OTHER = model_with_context(128)


@pytest.fixture
def hub() -> Iterator[Server]:
    with serving() as running:
        yield running


def publish(hub: Server, files: dict[str, bytes], **info: Any) -> None:
    """Put a repository on the hub; its files are behind a redirect to another host, as there."""
    siblings = []
    for name, data in files.items():
        digest = hashlib.sha256(data).hexdigest()
        lfs = {"sha256": digest, "size": len(data), "pointerSize": 130}
        siblings.append({"rfilename": name, "size": len(data), "lfs": lfs})
        hub.add(f"/cdn/{digest}", Served(data, etag=f'"{digest}"'))
        blob = hub.url.replace("127.0.0.1", "localhost") + f"/cdn/{digest}"
        hub.add(f"/{REPO}/resolve/{COMMIT}/{name}", Served(b"", redirect=blob))
    answer = {"id": REPO, "sha": COMMIT, "siblings": siblings, "tags": [], **info}
    listing = Served(json.dumps(answer).encode(), content_type="application/json")
    hub.add(f"/api/models/{REPO}", listing)


def pull(
    hub: Server, store: Store, text: str = f"hf:{REPO}", **variables: str
) -> subprocess.CompletedProcess[str]:
    return orin_llm("models", "pull", text, store=store.root, HF_ENDPOINT=hub.url, **variables)


def fetched(hub: Server) -> list[str]:
    return [path for path, _ in hub.requests if path.startswith("/cdn/")]


def test_the_q4_k_m_file_is_fetched_checked_and_found_again(hub: Server, store: Store) -> None:
    files = {"README.md": b"# Tiny", "Tiny-Q4_K_M.gguf": TINY, "Tiny-Q8_0.gguf": OTHER}
    publish(hub, files, cardData={"license": "apache-2.0"})
    done = pull(hub, store)
    assert done.returncode == 0, done.stderr
    assert "licence of tiny-q4_k_m: apache-2.0" in done.stderr
    path = store.path("tiny-q4_k_m")
    assert done.stdout == f"{path}\n" and path.read_bytes() == TINY
    assert resolve(f"hf:{REPO}", store) == path
    assert len(fetched(hub)) == 1


def test_a_repository_s_only_model_is_not_taken_for_q4_k_m(hub: Server, store: Store) -> None:
    publish(hub, {"Tiny-Q8_0.gguf": TINY})
    assert pull(hub, store).returncode == 0
    path = store.path("tiny-q8_0")
    assert resolve(f"hf:{REPO}", store) == resolve(f"hf:{REPO}:Q8_0", store) == path
    with pytest.raises(ModelFileError, match=":Q4_K_M is not in the store"):
        resolve(f"hf:{REPO}:Q4_K_M", store)
    assert pull(hub, store).stdout == f"{path}\n"


def test_the_token_goes_to_the_hub_and_not_to_the_host_it_redirects_to(
    hub: Server, store: Store
) -> None:
    publish(hub, {"Tiny-Q4_K_M.gguf": TINY})
    done = pull(hub, store, HF_TOKEN="hf_secret")
    assert done.returncode == 0, done.stderr
    tokens = {
        path.split("/")[1]: h.get("Authorization", h.get("authorization"))
        for path, h in hub.requests
    }
    assert tokens == {"api": "Bearer hf_secret", "owner": "Bearer hf_secret", "cdn": None}


def test_a_token_in_hf_home_is_used(hub: Server, store: Store, tmp_path: Path) -> None:
    publish(hub, {"Tiny-Q4_K_M.gguf": TINY})
    home = tmp_path / "home"
    home.mkdir()
    (home / "token").write_text("hf_stored\n")
    assert pull(hub, store, HF_HOME=str(home)).returncode == 0
    path, headers = next((p, h) for p, h in hub.requests if "/resolve/" in p)
    assert headers["Authorization"] == "Bearer hf_stored", path


def test_a_broken_download_is_continued_with_a_known_checksum(hub: Server, store: Store) -> None:
    publish(hub, {"Tiny-Q4_K_M.gguf": TINY})
    digest = hashlib.sha256(TINY).hexdigest()
    hub.files[f"/cdn/{digest}"].drops = [100_000]
    done = pull(hub, store)
    assert done.returncode == 0, done.stderr
    assert "trying again" in done.stderr
    assert [r for r in hub.ranges_asked() if r] == ["bytes=100000-"] * 2  # asked, then redirected


def test_all_parts_of_a_split_model_are_fetched(hub: Server, store: Store) -> None:
    parts = {f"Q8_0/Big-Q8_0-0000{n}-of-00002.gguf": d for n, d in enumerate(split_model(), 1)}
    publish(hub, {**parts, "Big-Q4_0.gguf": TINY})
    done = pull(hub, store, f"hf:{REPO}:q8_0")
    assert done.returncode == 0, done.stderr
    assert store.path("big-q8_0").name == "Big-Q8_0-00001-of-00002.gguf"
    assert len(store.manifest("big-q8_0").files) == 2


def test_a_missing_quantization_lists_the_choices(hub: Server, store: Store) -> None:
    publish(hub, {"Tiny-Q8_0.gguf": TINY, "Tiny-F16.gguf": OTHER})
    done = pull(hub, store)
    assert done.returncode == 2
    assert "no Q4_K_M file" in done.stderr
    assert f"  hf:{REPO}:Q8_0\n" in done.stderr and f"  hf:{REPO}:F16\n" in done.stderr
    assert fetched(hub) == [] and not store.root.exists()


def test_a_file_that_is_not_what_the_hub_announced_is_refused(hub: Server, store: Store) -> None:
    publish(hub, {"Tiny-Q4_K_M.gguf": TINY})
    digest = hashlib.sha256(TINY).hexdigest()
    changed = bytearray(TINY)
    changed[-1] ^= 1
    hub.files[f"/cdn/{digest}"].data = bytes(changed)
    done = pull(hub, store)
    assert done.returncode == 3
    assert "arrived damaged or is another file" in done.stderr
    assert store.names() == [] and store.partials() == []


def test_an_unknown_repository_is_said_to_be_unknown(hub: Server, store: Store) -> None:
    refusal = (404, {"X-Error-Code": "RepoNotFound"})
    hub.add(f"/api/models/{REPO}", Served(b"", answers=[refusal]))
    done = pull(hub, store)
    assert done.returncode == 1
    assert f"no repository {REPO}: check the spelling" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_repository_says_how_to_get_in(hub: Server, store: Store, status: int) -> None:
    publish(hub, {"Tiny-Q4_K_M.gguf": TINY})
    hub.files[f"/{REPO}/resolve/{COMMIT}/Tiny-Q4_K_M.gguf"].answers = [(status, {})]
    done = pull(hub, store)
    assert done.returncode == 1
    assert "asks for its licence to be accepted" in done.stderr and "HF_TOKEN" in done.stderr


def test_a_gated_listing_says_so_too(hub: Server, store: Store) -> None:
    refusal = (403, {"X-Error-Code": "GatedRepo"})
    hub.add(f"/api/models/{REPO}", Served(b"", answers=[refusal]))
    done = pull(hub, store)
    assert done.returncode == 1 and "HF_TOKEN" in done.stderr


def test_a_hub_that_fails_is_named_without_a_traceback(hub: Server, store: Store) -> None:
    hub.add(f"/api/models/{REPO}", Served(b"", answers=[(500, {})] * 20))
    done = pull(hub, store)
    assert done.returncode == 1
    assert "500" in done.stderr and "Traceback" not in done.stderr


def test_no_hub_at_all_is_said_in_one_line(store: Store) -> None:
    with serving() as gone:
        pass
    done = pull(gone, store)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "hub cannot be reached for " in done.stderr


def cache(home: Path, files: dict[str, bytes]) -> None:
    """What a download by huggingface_hub itself leaves in its cache."""
    folder = home / "hub" / f"models--{REPO.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "blobs").mkdir()
    for name, data in files.items():
        blob = folder / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)


def test_what_is_in_the_hubs_cache_is_linked_not_fetched(
    hub: Server, store: Store, tmp_path: Path
) -> None:
    publish(hub, {"Tiny-Q4_K_M.gguf": TINY})
    cache(tmp_path / "hf", {"Tiny-Q4_K_M.gguf": TINY})
    done = pull(hub, store, HF_HOME=str(tmp_path / "hf"))
    assert done.returncode == 0, done.stderr
    assert fetched(hub) == [] and store.path("tiny-q4_k_m").stat().st_nlink == 2


def test_offline_only_the_cache_is_asked(hub: Server, store: Store, tmp_path: Path) -> None:
    cache(tmp_path / "hf", {"Tiny-Q4_K_M.gguf": TINY, "Tiny-Q8_0.gguf": OTHER})
    done = pull(hub, store, HF_HOME=str(tmp_path / "hf"), HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert hub.requests == [] and store.path("tiny-q4_k_m").read_bytes() == TINY


def test_offline_without_a_cached_copy_says_why_nothing_comes(hub: Server, store: Store) -> None:
    done = pull(hub, store, HF_HUB_OFFLINE="1")
    assert done.returncode == 1 and "HF_HUB_OFFLINE is set" in done.stderr
    assert hub.requests == []


def test_a_registered_file_that_was_replaced_on_the_hub_is_not_taken_for_it(
    hub: Server, store: Store
) -> None:
    repo, file = "bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q4_K_M.gguf"
    lfs = {"sha256": "0" * 64, "size": 10, "pointerSize": 130}
    answer = {"id": repo, "sha": COMMIT, "siblings": [{"rfilename": file, "size": 10, "lfs": lfs}]}
    hub.add(f"/api/models/{repo}", Served(json.dumps(answer).encode()))
    done = pull(hub, store, "llama-3.2-1b")
    assert done.returncode == 1
    assert f"orin-llm models pull hf:{repo}/{file}" in done.stderr
