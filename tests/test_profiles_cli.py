"""`orin-llm profile` as a user sees it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pexpect
import pytest
from processes import CLI, environment
from processes import run as run_process
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.profiles.file import profile_text
from orin_llm.profiles.here import key_here
from orin_llm.profiles.profile import Profile
from orin_llm.profiles.store import ProfileStore

EVIDENCE = {
    "reason": "TTFT is 0.8 of the default's",
    "best": {"ttft_ms": {"512": 400.125}},
    "runners_up": [{"chunk_size": 128, "cost": 0.9}],
    "none": [],
}


@pytest.fixture
def profile(tiny_model: Path) -> Profile:
    return Profile(key_here(tiny_model), {"chunk_size": 256}, "ttft", EVIDENCE)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileStore:
    monkeypatch.setenv("ORIN_LLM_PROFILES", str(tmp_path / "profiles"))
    return ProfileStore()


def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["profile", *arguments], input=stdin)
    return done.exit_code, done.stdout, done.stderr


def run_json(*arguments: str) -> Any:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_an_empty_store_says_what_makes_a_profile(store: ProfileStore) -> None:
    code, out, err = run("list")
    assert (code, out) == (0, "")
    assert "`orin-llm tune` makes one" in err
    assert run_json("list")["profiles"] == []


def test_the_list_says_which_fit_what_differs_and_what_is_damaged(
    store: ProfileStore, profile: Profile
) -> None:
    store.save("near", profile)
    store.save("far", replace(profile, key=replace(profile.key, mode="MAXN")))
    store.path("bad").write_bytes(b"\xff")
    code, out, _ = run("list")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert lines["near"].endswith("fits here")
    assert lines["far"].endswith("differs in the power mode (MAXN, here none)")
    assert "is not UTF-8" in lines["bad"]
    told = run_json("list")
    assert [entry["differs"] for entry in told["profiles"]] == [
        "the power mode (MAXN, here none)", None,
    ]  # fmt: skip
    assert [entry["name"] for entry in told["damaged"]] == ["bad"]


def test_show_tells_settings_key_and_evidence(store: ProfileStore, profile: Profile) -> None:
    store.save("tuned", profile)
    code, out, _ = run("show", "tuned")
    assert code == 0
    for part in ("chunk_size 256", "ttft", "TTFT is 0.8 of the default's", "400.1", "cost 0.9"):
        assert part in out
    assert run_json("show", "tuned")["evidence"] == EVIDENCE
    assert run("show", str(store.path("tuned")))[0] == 0


def test_long_names_of_evidence_do_not_move_what_stands_behind_them(
    store: ProfileStore, profile: Profile
) -> None:
    evidence = {"short": "value 1", "a name with more than room": "value 2"}
    store.save("tuned", replace(profile, evidence=evidence))
    lines = run("show", "tuned")[1].splitlines()
    assert {line.index("value") for line in lines if "value " in line} == {24}


def test_an_exported_profile_can_be_imported_elsewhere(
    store: ProfileStore, profile: Profile, tmp_path: Path
) -> None:
    store.save("tuned", profile)
    file = tmp_path / "My Tuned.toml"
    assert run("export", "tuned", "-o", str(file))[0] == 0
    assert run("export", "tuned", "-o", str(file))[0] == 2  # it exists
    assert run("import", str(file)) == (0, "", "my-tuned: for tiny, used on this machine\n")
    assert store.read("my-tuned").profile == profile
    _, text, _ = run("export", "tuned")
    assert text == file.read_text()
    assert run("import", "-", "--name", "piped", stdin=text.encode())[0] == 0
    assert store.read("piped").profile == profile


def test_an_import_replaces_nothing_without_force(
    store: ProfileStore, profile: Profile, tmp_path: Path
) -> None:
    store.save("tuned", profile)
    file = tmp_path / "tuned.toml"
    file.write_text(profile_text(replace(profile, goal="tpot")))
    code, _, err = run("import", str(file))
    assert (code, store.read("tuned").profile.goal) == (2, "ttft")
    assert "--force replaces it" in err
    assert run("import", str(file), "--force")[0] == 0
    assert store.read("tuned").profile.goal == "tpot"


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"schema = 1\n", b"[values]\nchunk_size = -1\n", b"\0" * 100]
)
def test_what_is_no_profile_is_not_imported(
    store: ProfileStore, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "x.toml").write_bytes(content)
    code, out, err = run("import", str(tmp_path / "x.toml"))
    assert (code, out, store.names()) == (2, "", [])
    assert err.startswith("error: ")


def test_what_comes_by_a_pipe_needs_a_name(store: ProfileStore) -> None:
    code, _, err = run("import", "-")
    assert code == 2 and "--name NAME" in err


def test_nothing_is_removed_where_one_of_the_names_is_wrong(
    store: ProfileStore, profile: Profile
) -> None:
    store.save("tuned", profile)
    code, _, err = run("rm", "tuned", "tuna", "--yes")
    assert (code, store.names()) == (2, ["tuned"])
    assert "did you mean tuned?" in err
    assert run("rm", "tuned")[0] == 2  # no terminal to ask on
    assert run("rm", "tuned", "--yes")[0] == 0
    assert store.names() == []


def test_a_person_is_asked_before_a_profile_goes(store: ProfileStore, profile: Profile) -> None:
    store.save("tuned", profile)
    command = [*CLI, "profile", "rm", "tuned"]
    for answer, left in (("n", ["tuned"]), ("y", [])):
        child = pexpect.spawn(command[0], command[1:], env=environment(), timeout=60)
        child.expect("Remove tuned")
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert store.names() == left


def test_a_full_disk_is_told_and_leaves_nothing(store: ProfileStore, profile: Profile) -> None:
    store.save("tuned", profile)
    for out in ("/dev/full", "/nonexistent/x.toml"):
        assert run("export", "tuned", "-o", out)[0] != 0
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*CLI, "profile", "export", "tuned"], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1 and b"No space left" in done.stderr


def test_a_pipe_that_closes_ends_the_export_quietly(store: ProfileStore, profile: Profile) -> None:
    store.save("tuned", profile)
    done = run_process(["sh", "-c", f"{' '.join(CLI)} profile list | true"], env=dict(os.environ))
    assert (done.returncode, done.stderr) == (0, "")
