"""The units that the setup installs, as systemd itself reads them, and the monitor's."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from setup_support import SetupBoard, make_board

from orin_llm.device.board import read_board
from orin_llm.device.setup.apply import apply, revert
from orin_llm.device.setup.catalogue import SetupChoices, all_changes, select
from orin_llm.device.setup.change import Change
from orin_llm.device.setup.plan import make_plan
from orin_llm.device.setup.system import System

ANALYZE = shutil.which("systemd-analyze")
UNIT = "etc/systemd/system/orin-llm-monitor.service"
CHANGES = {
    "emc-cap": "orin-llm-emc.service",
    "clocks": "orin-llm-clocks.service",
    "service": "orin-llm@.service",
    "monitor": "orin-llm-monitor.service",
}


def no_report(_: str) -> None:
    pass


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetupBoard:
    return make_board(tmp_path, monkeypatch)


def change_of(
    board: SetupBoard, name: str, program: str = "/opt/orin-llm", user: str = "ada"
) -> Change:
    choices = SetupChoices("MAXN", "cool", 10**6, user, program)
    (change,) = select(all_changes(choices, read_board(board.root)), [name], [])
    return change


def applied(board: SetupBoard, change: Change) -> str:
    """The text of the unit that it installs."""
    apply(System(board.root), make_plan(System(board.root), [change]), no_report)
    return board.text(f"etc/systemd/system/{CHANGES[change.name]}")


def complaints(folder: Path, name: str, text: str) -> str:
    """What systemd says of a unit; of its programs, those of a board are here."""
    assert ANALYZE is not None
    (folder / name).write_text(text.replace("/usr/bin/jetson_clocks", "/bin/true"))
    done = subprocess.run(
        [ANALYZE, "verify", "--man=no", folder / name], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if name in line]
    return "\n".join(said) or f"exit status {done.returncode}" * (done.returncode != 0)


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", CHANGES)
def test_systemd_understands_every_line_of_the_units(
    board: SetupBoard, tmp_path: Path, name: str
) -> None:
    program = tmp_path / "a folder of 100%/true"
    program.parent.mkdir()
    program.symlink_to("/bin/true")
    text = applied(board, change_of(board, name, str(program), "root"))
    unit = CHANGES[name].replace("@.", "@serve.")
    assert complaints(tmp_path, unit, text) == ""
    assert "Unknown key" in complaints(
        tmp_path, unit, text.replace("[Install]", "Nicer=1\n[Install]")
    )


def test_the_monitor_is_installed_and_not_switched_on(board: SetupBoard) -> None:
    applied(board, change_of(board, "monitor"))
    assert not (board.root / "fake/enabled/orin-llm-monitor").exists()
    assert not (board.root / "fake/active/orin-llm-monitor").exists()
    assert not any(" enable" in line or " start" in line for line in board.log)
    assert "systemctl enable --now orin-llm-monitor" in change_of(board, "monitor").title


def test_the_monitor_runs_as_the_user_without_a_terminal(board: SetupBoard) -> None:
    unit = configparser.RawConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(applied(board, change_of(board, "monitor", "/opt/a b/orin-llm")))
    service = dict(unit["Service"])
    assert service["ExecStart"] == '"/opt/a b/orin-llm" monitor --headless --interval 5 $ARGS'
    assert service["EnvironmentFile"] == "-/etc/orin-llm/monitor.env"
    assert service["User"] == "ada" and service["Nice"] == "10"
    assert service["Restart"] == "on-failure" and service["KillSignal"] == "SIGTERM"
    assert {"130", "143"} <= set(service["SuccessExitStatus"].split())
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_nothing_hides_sensors_or_sockets_of_engines_from_the_monitor(board: SetupBoard) -> None:
    text = applied(board, change_of(board, "monitor"))
    hindering = (
        "PrivateTmp", "ProtectHome", "PrivateDevices", "ProtectKernelTunables", "ProcSubset",
        "ProtectProc", "PrivateUsers", "DynamicUser", "NoNewPrivileges", "RestrictAddressFamilies",
        "InaccessiblePaths", "PrivateNetwork", "drop_caches",
    )  # fmt: skip
    assert not [word for word in hindering if word in text]


def test_a_monitor_that_the_user_has_switched_on_stays_on_in_another_apply(
    board: SetupBoard,
) -> None:
    applied(board, change_of(board, "monitor"))
    system = System(board.root)
    system.run("systemctl", "enable", "orin-llm-monitor.service")
    system.run("systemctl", "start", "orin-llm-monitor.service")
    (step,) = make_plan(system, [change_of(board, "monitor")])
    assert not step.pending
    applied(board, change_of(board, "monitor", user="grace"))
    assert (board.root / "fake/enabled/orin-llm-monitor").exists()
    assert "User=grace" in board.text("fake/active/orin-llm-monitor")  # the new text runs


def test_revert_switches_the_monitor_off_and_removes_it(board: SetupBoard) -> None:
    before, system = board.configuration(), System(board.root)
    applied(board, change_of(board, "monitor"))
    system.run("systemctl", "enable", "orin-llm-monitor.service")
    system.run("systemctl", "start", "orin-llm-monitor.service")
    revert(system, [change_of(board, "monitor")], no_report)
    assert board.configuration() == before
