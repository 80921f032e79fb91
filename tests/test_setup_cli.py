"""`orin-llm setup` as a user meets it, on boards made of files and fake programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from fakes import boards
from setup_support import SetupBoard, make_board
from typer.testing import CliRunner

from orin_llm.cli.main import app

ALL = [
    "power-mode", "emc-cap", "clocks", "fan", "headless", "swapfile", "zram", "udev", "groups",
    "service", "monitor",
]  # fmt: skip
SNAPSHOT = "var/lib/orin-llm/setup.json"


def setup(board: SetupBoard, command: str, *arguments: str) -> Result:
    small = () if command == "revert" else ("--swap-gb", "1")
    return CliRunner().invoke(
        app, ["setup", command, "--root", str(board.root), *small, *arguments]
    )


def as_json(done: Result) -> Any:
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetupBoard:
    return make_board(tmp_path, monkeypatch)


def test_plan_shows_every_change_and_makes_none(board: SetupBoard) -> None:
    before = board.files()
    done = setup(board, "plan")
    assert done.exit_code == 0, done.stderr
    text = done.stdout
    assert "    mode: MODE_30W -> MAXN\n" in text
    assert "(maybe from the next boot on)" in text
    assert "    +ExecStart=/usr/bin/jetson_clocks\n" in text
    assert "echo 3199000000 >/sys/kernel/nvpmodel_clk_cap/emc" in text
    assert "    target: graphical.target -> multi-user.target\n" in text
    assert "    profile: quiet -> cool\n" in text
    assert "    path: /var/lib/orin-llm/swapfile\n    size_bytes: none -> 1000000000\n" in text
    assert "    /etc/udev/rules.d/60-orin-llm.rules:\n    +# The group" in text
    assert "    video: no -> yes\n" in text
    assert text.endswith("11 of 11 to change\n")
    assert board.files() == before


def test_plan_runs_only_what_asks(board: SetupBoard) -> None:
    setup(board, "plan")
    asked = {" ".join(line.split()[:2]) for line in board.log}
    assert asked == {
        "systemctl get-default", "systemctl is-enabled", "systemctl is-active", "nvpmodel -q",
    }  # fmt: skip


def test_apply_changes_all_and_says_what_waits_for_a_reboot(board: SetupBoard) -> None:
    done = setup(board, "apply")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"changed: {', '.join(ALL)}\n")
    assert "waits for a reboot: power mode MAXN (it is MODE_30W until then)" in done.stdout
    assert "waits for a reboot: the desktop" in done.stdout
    assert "waits for a reboot: zram" in done.stdout
    assert "A reboot is needed" in done.stdout
    assert board.text("var/lib/nvpmodel/status") == "pmode:0000 fmode:fan_mode_quiet\n"
    assert "\tFAN_DEFAULT_PROFILE cool\n" in board.text("etc/nvfancontrol.conf")
    assert not (board.root / "var/lib/nvfancontrol/status").exists()
    assert board.text("etc/fstab").endswith("/var/lib/orin-llm/swapfile none swap sw 0 0\n")
    swap = board.root / "var/lib/orin-llm/swapfile"
    assert swap.stat().st_size == 10**9 and swap.stat().st_mode & 0o777 == 0o600
    assert "video:x:44:gdm,ada" in board.text("etc/group")
    for unit in ("orin-llm-emc", "orin-llm-clocks"):
        assert (board.root / f"fake/enabled/{unit}").exists()
        assert (board.root / f"fake/active/{unit}").exists()


def test_nothing_ever_reboots(board: SetupBoard) -> None:
    setup(board, "apply")
    setup(board, "revert")
    assert "nvpmodel -m 0" in board.log  # which asked, and was told no
    assert "REBOOT" not in board.log
    verbs = {line.split()[1] for line in board.log if line.startswith("systemctl")}
    assert not verbs & {"reboot", "isolate", "kexec", "poweroff"}


def test_applied_again_nothing_is_left_to_do(board: SetupBoard) -> None:
    setup(board, "apply")
    before = board.files()
    board.forget()
    report = as_json(setup(board, "apply", "--json"))
    assert report["done"] == [] and report["reboot_needed"] is True
    assert board.files() == before
    assert not any(
        "enable " in line or "swapon" in line or "nvpmodel -m" in line for line in board.log
    )


def test_after_the_reboot_nothing_waits(board: SetupBoard) -> None:
    setup(board, "apply")
    board.reboot()
    plan = as_json(setup(board, "plan", "--json"))
    assert [change["name"] for change in plan["changes"]] == ALL
    assert not any(change["pending"] for change in plan["changes"])
    assert not any(change["waits_for_reboot"] for change in plan["changes"])
    assert setup(board, "plan").stdout.endswith("nothing to change\n")


def test_revert_restores_every_file(board: SetupBoard) -> None:
    before = board.configuration()
    setup(board, "apply")
    done = setup(board, "revert")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"restored: {', '.join(reversed(ALL))}\n")
    assert board.configuration() == before
    assert not (board.root / "var/lib/nvfancontrol/status").exists()  # made anew by nvfancontrol


@pytest.mark.parametrize("name", ["32GB-JP6", "64GB-JP5", "32GB-JP5"])
def test_other_boards_are_set_up_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    board = make_board(tmp_path, monkeypatch, boards.JETSONS[name])
    before = board.configuration()
    assert as_json(setup(board, "apply", "--json"))["done"] == ALL
    board.reboot()
    plan = as_json(setup(board, "plan", "--json"))["changes"]
    assert not any(change["pending"] or change["waits_for_reboot"] for change in plan)
    assert setup(board, "revert").exit_code == 0
    board.reboot()
    (board.root / "proc/swaps").write_text(before["proc/swaps"])
    assert board.configuration() == before


def test_revert_with_nothing_applied_does_nothing(board: SetupBoard) -> None:
    before = board.files()
    done = setup(board, "revert")
    assert done.exit_code == 0 and done.stdout == "restored: nothing\n"
    assert board.files() == before and board.log == []


def test_the_snapshot_holds_the_state_before_the_first_of_several_applies(
    board: SetupBoard,
) -> None:
    setup(board, "apply", "--only", "fan")
    setup(board, "apply", "--only", "power-mode", "--mode", "50W")
    setup(board, "apply", "--only", "power-mode", "--mode", "15W")
    snapshot = json.loads(board.text(SNAPSHOT))
    assert snapshot == {
        "version": 1,
        "changes": [
            {"name": "fan", "before": {"profile": "quiet"}},
            {"name": "power-mode", "before": {"mode": "MODE_30W"}},
        ],
    }
    report = as_json(setup(board, "revert", "--json"))
    assert report["done"] == ["power-mode", "fan"]
    assert board.text("var/lib/nvpmodel/status").startswith("pmode:0002")
    assert not (board.root / SNAPSHOT).exists()


def test_only_and_skip_choose_changes(board: SetupBoard) -> None:
    assert as_json(setup(board, "apply", "--json", "--only", "fan"))["done"] == ["fan"]
    skipped = [word for name in ALL[2:] for word in ("--skip", name)]
    report = as_json(setup(board, "apply", "--json", *skipped))
    assert report["done"] == ["power-mode", "emc-cap"]


def test_what_is_not_possible_is_left_out_but_not_if_it_was_asked_for_by_name(
    board: SetupBoard,
) -> None:
    (board.root / "etc/nvfancontrol.conf").unlink()
    named = setup(board, "apply", "--only", "fan", "--only", "headless")
    assert named.exit_code == 1 and "Not possible: fan: " in named.stderr
    assert board.text("fake/default") == "graphical.target\n"
    done = setup(board, "apply")
    assert done.exit_code == 0 and "not possible: fan: " in done.stderr
    assert "headless" in done.stdout and "fan" not in done.stdout
    assert "fan" in as_json(setup(board, "apply", "--json"))["not_possible"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "warp"], "no change 'warp': there are power-mode, "),
        (["--skip", "warp"], "no change 'warp'"),
        (["--mode", "99W"], "no power mode '99W'. It has: MAXN, MODE_15W, MODE_30W, MODE_50W"),
    ],
)
def test_what_does_not_exist_is_wrong_usage(
    board: SetupBoard, arguments: list[str], complaint: str
) -> None:
    for command in ("plan", "apply"):
        done = setup(board, command, *arguments)
        assert done.exit_code == 2 and complaint in done.stderr


def test_a_pc_is_no_board(tmp_path: Path) -> None:
    for command in ("plan", "apply", "revert"):
        done = CliRunner().invoke(app, ["setup", command, "--root", str(tmp_path)])
        assert done.exit_code == 4 and "the setup is for Jetson boards" in done.stderr


def test_apply_and_revert_without_root_say_how_and_plan_needs_none(
    board: SetupBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    for command in ("apply", "revert"):
        done = CliRunner().invoke(app, ["setup", command])
        assert done.exit_code == 1 and "sudo" in done.stderr and f"setup {command}" in done.stderr
    assert setup(board, "plan").exit_code == 0
    assert board.log and not any("nvpmodel -m" in line for line in board.log)


def test_progress_goes_to_stderr_unless_quiet(board: SetupBoard) -> None:
    assert setup(board, "apply", "--only", "fan").stderr.startswith("fan: cool early")
    assert setup(board, "revert", "-q").stderr == ""
