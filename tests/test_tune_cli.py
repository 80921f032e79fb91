"""`orin-llm tune` as a user sees it, on a model of some kilobytes."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import boards
from processes import CLI, environment, interrupt
from processes import start as start_process
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.cli.tune_options import seconds
from orin_llm.errors import UsageError
from orin_llm.host.locking import file_lock
from orin_llm.profiles.key import ProfileKey
from orin_llm.profiles.profile import Profile
from orin_llm.profiles.store import ProfileStore

QUICK = ("--goal", "ttft", "--only", "chunk_size", "--repetitions", "2", "-p", "64", "-t", "1")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("ORIN_LLM_PROFILES")
    return tmp_path / "data" / "orin-llm"


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def tune(model: Path, *arguments: str) -> tuple[int, str, str]:
    return run("tune", str(model), *QUICK, *arguments)


def test_what_is_tuned_is_kept_reported_and_picked_up(tiny_model: Path, home: Path) -> None:
    code, out, err = tune(tiny_model)
    assert code == 0
    assert "chunk_size" in out and "report" in out
    assert "1 default: chunk_size 512: cost 1.000 of the default's\n" in err
    profile = ProfileStore().read("tiny-ttft").profile
    assert set(profile.values) == {"chunk_size", "threads"}
    assert profile.evidence["decision"] in ("better", "noise", "default")
    report = (home / "tune" / "tiny-ttft" / "report.md").read_text()
    assert "## TTFT by chunk size" in report and f"orin-llm run -m {tiny_model}" in report
    _, _, err = run("run", "-m", str(tiny_model), "--raw", "-p", "a", "-n", "1")
    assert err.startswith(
        f"profile tiny-ttft: threads 1, chunk_size {profile.values['chunk_size']}"
    )


def test_the_result_in_json_has_settings_figures_and_places(tiny_model: Path, home: Path) -> None:
    code, out, err = tune(tiny_model, "--json", "--quiet", "--max-tpot", "10000")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert told["profile_name"] == "tiny-ttft"
    assert told["goal"] == "ttft" and told["max_tpot_ms"] == 10000
    assert told["best"]["ttft_ms"]["64"] > 0 and told["best"]["tpot_ms"] > 0
    assert told["best"]["power_w"] is None  # no sensor here
    assert Path(told["report"]).exists() and Path(told["study"]).exists()
    assert json.loads((home / "tune" / "tiny-ttft" / "result.json").read_text()) == told


def test_a_dry_run_says_what_would_be_tuned_and_leaves_nothing(
    tiny_model: Path, home: Path
) -> None:
    code, out, _ = run("tune", str(tiny_model), "--dry-run")
    assert code == 0
    assert "max_batch" in out and "q8_0" in out
    code, out, _ = tune(tiny_model, "--dry-run", "--json")
    assert list(json.loads(out)["settings"]) == ["chunk_size"]
    assert not home.exists()


def test_bounds_that_nothing_holds_are_an_error_and_make_no_profile(tiny_model: Path) -> None:
    code, out, err = tune(tiny_model, "--max-tpot", "0.0001")
    assert code == 1
    assert "no settings were found: nothing holds the bounds" in out
    assert "error: nothing holds the bounds" in err and ProfileStore().names() == []


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--goal", "speed"), "no goal 'speed'"),
        (("--max-tpot", "-1"), "max_tpot_ms is -1"),
        (("--max-ppl-ratio", "0.9"), "max_perplexity_ratio is 0.9"),
        (("--only", "hooks"), "there is no setting 'hooks' to tune here: chunk_size"),
        (("--chunk-size", "64"), "nothing is left to tune"),
        (("--trials", "0"), "0 trials"),
        (("--repetitions", "1"), "1 repetitions: at least 2"),
        (("--time-limit", "soon"), "expected such as 30m"),
        (("-p", "300"), "shorten them"),
        (("-p", "x"), "-p"),
        (("-n", "0"), "an answer whose TPOT is measured 2"),
        (("--seed", "-1"), "--seed is -1"),
        (("-ngl", "3"), "a profile is for all of them or none"),
        (("--kv-type", "q9"), "q9"),
        (("--name", "../x"), "cannot name a profile"),
        (("--resume",), "there is nothing to go on with"),
        (("--folder", "/etc/passwd"), "is a file: name a folder"),
        (("--power", "30"), "needs readings of power"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_is_kept(
    tiny_model: Path, flags: tuple[str, ...], told: str
) -> None:
    code, out, err = tune(tiny_model, "--quiet", *flags)
    assert (code, out) == (2, "")
    assert told in err and ProfileStore().names() == []


@pytest.mark.parametrize("name", ["none", "/etc/passwd"])
def test_a_model_that_is_not_there_or_none_is_an_error(name: str) -> None:
    code, _, err = run("tune", name)
    assert code == 3 and err.startswith("error: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("5", 300), ("0.5 h", 1800)],
)
def test_a_time_limit_is_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "h", "5x", "-3m", "5m!", "m5", "1e9"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected such as 30m"):
        seconds(text)


# Boards


CAPPED = replace(boards.AGX_64_JP6, mode="MAXN", emc_mhz=2133, emc_firmware_mhz=2133)


@pytest.mark.parametrize(
    ("board", "trap"),
    [(boards.AGX_64_JP6, "power mode: MODE_30W"), (CAPPED, "firmware's cap: 2133 of 3199 MHz")],
    ids=["30 W", "EMC cap"],
)
def test_a_machine_that_is_held_back_is_tuned_only_anyway(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    board: boards.Jetson,
    trap: str,
) -> None:
    machine = boards.jetson(tmp_path, board)
    monkeypatch.setenv("PATH", machine.path)
    on_board = ("--root", str(machine.root), "-ngl", "0")
    code, _, err = tune(tiny_model, *on_board)
    assert code == 1
    assert f"warning: {trap}" in err and "or say --anyway" in err
    assert ProfileStore().names() == []
    code, _, err = tune(tiny_model, *on_board, "--anyway", "--goal", "energy")
    assert code == 0 and f"warning: {trap}" in err
    name = f"tiny-{board.mode.lower()}-energy"
    evidence = ProfileStore().read(name).profile.evidence
    assert any(trap in warning for warning in evidence["warnings"])
    assert evidence["best"]["power_w"] == pytest.approx(boards.AGX_WATTS)
    assert trap in (home / "tune" / name / "report.md").read_text()


def test_a_board_at_its_best_is_tuned_and_held_to_its_power(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = boards.jetson(tmp_path, replace(boards.AGX_64_JP6, mode="MAXN"))
    monkeypatch.setenv("PATH", machine.path)
    on_board = ("--root", str(machine.root), "-ngl", "0")
    code, _, err = tune(tiny_model, *on_board, "--power", "32")
    assert code == 0 and "warning" not in err
    assert ProfileStore().read("tiny-maxn-ttft").profile.key.mode == "MAXN"
    code, _, err = tune(tiny_model, *on_board, "--power", "30", "--name", "cool")
    assert code == 1
    assert f"power of {boards.AGX_WATTS:g} W is above 30 W" in err
    assert ProfileStore().names() == ["tiny-maxn-ttft"]


def test_a_build_without_cuda_is_a_trap_where_a_gpu_is(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = boards.pc_with_gpu(tmp_path)
    monkeypatch.setenv("PATH", machine.path)
    code, _, err = tune(tiny_model, "--root", str(machine.root))
    assert code == 1
    assert "the settings would be the processor's, not the GPU's" in err


# Interrupted


def test_ctrl_c_keeps_the_best_so_far_and_the_same_command_goes_on(
    tiny_model: Path, home: Path
) -> None:
    folder = home / "tune" / "tiny-ttft"
    command = [*CLI, "tune", str(tiny_model), *QUICK]
    # So many repetitions take minutes: they begin right behind the first trial.
    process = start_process([*command, "--full", "--repetitions", "30000"], env=environment())
    assert process.stderr is not None
    assert process.stderr.readline() == "measuring the defaults\n"
    assert process.stderr.readline().startswith("1 default: ")
    out, err = interrupt(process)
    assert process.returncode in (130, -signal.SIGINT)
    assert "interrupted: the best so far is kept; the same command goes on" in err
    assert "not finished: " in out
    assert (folder / "report.md").exists() and not (folder / "result.json").exists()
    assert ProfileStore().read("tiny-ttft").profile.evidence["decision"] == "unfinished"
    code, _, err = tune(tiny_model)
    assert code == 0
    assert err.startswith(f"going on with the trials in {folder}")
    assert ProfileStore().read("tiny-ttft").profile.evidence["decision"] != "unfinished"


def test_a_finished_search_begins_anew_unless_it_is_to_go_on(tiny_model: Path) -> None:
    assert tune(tiny_model)[0] == 0
    created = time.time()
    code, out, err = tune(tiny_model, "--resume", "--json")
    assert code == 0 and "going on with the trials" in err
    again = json.loads(out)
    assert time.time() - created < 30
    code, out, err = tune(tiny_model, "--json")
    assert "going on" not in err
    assert json.loads(out)["elapsed_s"] >= 0 and again["trials"] > 0


def test_another_search_does_not_go_on_with_this_ones_trials(tiny_model: Path) -> None:
    assert tune(tiny_model)[0] == 0
    code, _, err = tune(tiny_model, "--resume", "--max-ttft", "5000")
    assert code == 2
    assert "is of another search" in err and "--fresh" in err


def test_a_search_under_way_is_left_alone_by_another(tiny_model: Path, home: Path) -> None:
    assert tune(tiny_model)[0] == 0
    folder = home / "tune" / "tiny-ttft"
    with file_lock(folder / "study.sqlite.lock"):
        code, _, err = tune(tiny_model, "--fresh")
    assert code == 2 and "is in use by another process" in err
    assert (folder / "study.sqlite").exists()


def test_what_was_measured_elsewhere_keeps_its_name(tiny_model: Path) -> None:
    key = ProfileKey("PC", None, None, None, None, None, "other", 1, "tiny", "0" * 64)
    ProfileStore().save("tiny-ttft", Profile(key, {"chunk_size": 32}))
    assert tune(tiny_model)[0] == 0
    assert ProfileStore().names() == ["tiny-ttft", "tiny-ttft-2"]
