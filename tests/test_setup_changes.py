"""What single changes do on boards: 64 and 32 GB, JetPack 5 and 6, with and without NVMe."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fakes import boards
from setup_support import SetupBoard, make_board

from orin_llm.device.board import read_board
from orin_llm.device.setup.apply import apply, revert
from orin_llm.device.setup.catalogue import SetupChoices, all_changes, select
from orin_llm.device.setup.change import Change
from orin_llm.device.setup.plan import Step, make_plan
from orin_llm.device.setup.system import System
from orin_llm.errors import DeviceUnavailable, OrinError

PROGRAM = "/opt/orin-llm/.venv/bin/orin-llm"


def no_report(_: str) -> None:
    pass


def change_of(
    board: SetupBoard, name: str, mode: str = "MAXN", fan: str = "cool", user: str = "ada",
    swap_bytes: int = 10**6,
) -> Change:  # fmt: skip
    choices = SetupChoices(mode, fan, swap_bytes, user, PROGRAM)
    (change,) = select(all_changes(choices, read_board(board.root)), [name], [])
    return change


def step_of(board: SetupBoard, name: str, **choices: str) -> Step:
    (step,) = make_plan(System(board.root), [change_of(board, name, **choices)])
    return step


def apply_one(board: SetupBoard, name: str, **choices: str) -> tuple[str, ...]:
    """Apply it; what then waits for a reboot."""
    return apply(System(board.root), [step_of(board, name, **choices)], no_report).waiting


@pytest.mark.parametrize(
    ("jetson", "name"), [(boards.AGX_64_JP6, "MODE_50W"), (boards.AGX_32_JP6, "MODE_40W")]
)
def test_modes_are_found_by_name_where_numbers_differ_in_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jetson: boards.Jetson, name: str
) -> None:
    board = make_board(tmp_path, monkeypatch, jetson)
    assert apply_one(board, "power-mode", mode=name.removeprefix("MODE_").lower())
    assert board.text("var/lib/nvpmodel/status").startswith("pmode:0003")


def test_a_mode_with_the_same_part_of_the_gpu_is_set_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    apply_one(board, "power-mode")
    board.reboot()
    assert apply_one(board, "power-mode", mode="50W") == ()
    assert board.text("fake/pmode") == "3"


def test_a_gpu_that_is_still_in_part_switched_off_waits_for_a_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    (board.root / "fake/pmode").write_text("0")  # what nvpmodel tells, while the mask is of 30 W
    (board.root / "var/lib/nvpmodel/status").write_text("pmode:0000\n")
    step = step_of(board, "power-mode")
    assert not step.pending and "other parts of the GPU are switched off" in step.waits


def test_a_mode_that_nvpmodel_refuses_is_an_error_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    broken = board.bin / "nvpmodel"
    broken.write_text("#!/bin/sh\necho 'NVPM ERROR: failed to write PARAM GPU'\nexit 1\n")
    with pytest.raises(OrinError, match="nvpmodel did not set MAXN: NVPM ERROR: failed to write"):
        apply_one(board, "power-mode")


def test_pinned_clocks_are_pinned_anew_in_a_new_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    apply_one(board, "clocks")
    board.forget()
    apply_one(board, "power-mode")
    assert [line for line in board.log if line.startswith("systemctl restart")] == [
        "systemctl restart orin-llm-clocks.service"
    ]


@pytest.mark.parametrize(
    ("jetson", "node"),
    [
        (boards.AGX_64_JP5, "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"),
        (boards.AGX_64_JP6, "/sys/kernel/nvpmodel_clk_cap/emc"),
    ],
)
def test_the_memorys_cap_is_lifted_where_the_release_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jetson: boards.Jetson, node: str
) -> None:
    step = step_of(make_board(tmp_path, monkeypatch, jetson), "emc-cap")
    assert f"'echo 3199000000 >{node}'" in str(step.wanted["text"])


def test_the_memorys_cap_is_that_of_the_mode_where_it_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = step_of(make_board(tmp_path, monkeypatch), "emc-cap", mode="15W")
    assert "echo 2133000000 >" in str(step.wanted["text"])


def test_a_unit_with_a_new_text_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = make_board(tmp_path, monkeypatch)
    for mode, hz in (("15W", "2133000000"), ("MAXN", "3199000000")):
        apply_one(board, "emc-cap", mode=mode)
        assert f"echo {hz} >" in board.text("fake/active/orin-llm-emc")
        assert (board.root / "fake/enabled/orin-llm-emc").exists()


def test_what_the_memorys_unit_does_is_undone_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    text = str(step_of(board, "emc-cap").wanted["text"])
    (tmp_path / "run").mkdir()
    for line in text.splitlines():
        key, _, command = line.partition("=")
        if key.startswith("ExecSt"):
            script = command.removeprefix("/bin/sh -c ").strip("'")
            script = script.replace("/sys/", f"{board.root}/sys/").replace("/run/", f"{tmp_path}/")
            subprocess.run(["sh", "-c", script], check=True)
            if key == "ExecStart":
                assert board.text("sys/kernel/nvpmodel_clk_cap/emc") == "3199000000\n"
    assert board.text("sys/kernel/nvpmodel_clk_cap/emc") == "2133000000\n"


@pytest.mark.parametrize("nvme", [None, "/boot/efi"])
@pytest.mark.parametrize("name", ["swapfile", "zram"])
def test_without_nvme_swap_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nvme: str | None
) -> None:
    board = make_board(tmp_path, monkeypatch, nvme=nvme)
    assert "no partition of an NVMe drive is mounted" in step_of(board, name).problem


def test_swap_lies_on_the_nvme_drive_where_the_system_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch, nvme="/ssd")
    (board.root / "ssd").mkdir()
    apply_one(board, "swapfile")
    assert (board.root / "ssd/orin-llm.swap").stat().st_size == 10**6
    assert "/ssd/orin-llm.swap none swap sw 0 0\n" in board.text("etc/fstab")


def test_a_swap_file_of_another_size_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, system = make_board(tmp_path, monkeypatch), System(tmp_path / "root")
    apply_one(board, "swapfile")
    larger = make_plan(system, [change_of(board, "swapfile", swap_bytes=2 * 10**6)])
    board.forget()
    apply(system, larger, no_report)
    assert [line.split()[0] for line in board.log] == ["swapoff", "fallocate", "mkswap", "swapon"]
    assert board.text("etc/fstab").count("swapfile") == 1
    revert(system, [change_of(board, "swapfile")], no_report)
    assert not (board.root / "var/lib/orin-llm/swapfile").exists()


def test_swap_that_does_not_fit_the_disk_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    (step,) = make_plan(System(board.root), [change_of(board, "swapfile", swap_bytes=10**18)])
    assert "say a smaller --swap-gb" in step.problem


def test_the_fan_always_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = make_board(tmp_path, monkeypatch)
    (board.root / "var/lib/nvfancontrol/status").unlink()
    (board.root / "var/lib/nvfancontrol/status").mkdir()  # cannot be removed as a file
    with pytest.raises(OrinError):
        apply_one(board, "fan")
    assert (board.root / "fake/active/nvfancontrol").exists()


@pytest.mark.parametrize(
    ("name", "missing", "problem"),
    [
        ("fan", "etc/nvfancontrol.conf", "has no FAN_DEFAULT_PROFILE"),
        ("power-mode", "etc/nvpmodel.conf", "the power modes cannot be read"),
        ("emc-cap", "sys/kernel/nvpmodel_clk_cap/emc", "no cap of the memory's clock"),
        ("zram", "fake/units/nvzramconfig", "nvzramconfig.service is neither enabled nor disabled"),
        ("headless", "../bin/systemctl", "systemctl was not found on PATH"),
    ],
)
def test_what_a_board_lacks_is_not_possible_and_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, missing: str, problem: str
) -> None:
    board = make_board(tmp_path, monkeypatch)
    (board.root / missing).unlink()
    assert problem in step_of(board, name).problem
    assert step_of(board, "udev").pending


def test_a_fan_profile_that_is_not_defined_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = step_of(make_board(tmp_path, monkeypatch), "fan", fan="arctic")
    assert "has no profile 'arctic'. It has: quiet, cool" in step.problem


def test_groups_that_do_not_exist_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    (board.root / "etc/group").write_text("video:x:44:ada\n")
    step = step_of(board, "groups")
    assert not step.pending and step.now == {"user": "ada", "video": True, "jtop": None}
    assert "say --user" in step_of(board, "groups", user="").problem


def test_revert_leaves_a_user_in_groups_that_had_him_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    (board.root / "etc/group").write_text("video:x:44:ada\njtop:x:998:\n")
    apply_one(board, "groups")
    assert board.text("etc/group") == "video:x:44:ada\njtop:x:998:ada\n"
    revert(System(board.root), [change_of(board, "groups")], no_report)
    assert board.text("etc/group") == "video:x:44:ada\njtop:x:998:\n"


def test_the_service_runs_a_command_of_the_toolkit_as_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    apply_one(board, "service")
    text = board.text("etc/systemd/system/orin-llm@.service")
    assert f'\nExecStart="{PROGRAM}" %i $ARGS\n' in text
    assert "\nUser=ada\n" in text and "\nEnvironmentFile=-/etc/orin-llm/%i.env\n" in text
    assert "ExecStartPre=-+/bin/sh -c 'sync; echo 3 >/proc/sys/vm/drop_caches'" in text


def test_the_rule_is_read_and_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = make_board(tmp_path, monkeypatch)
    apply_one(board, "udev")
    assert board.log == [
        "udevadm control --reload",
        "udevadm trigger --action=add --subsystem-match=devfreq",
    ]


def test_rights_that_the_rule_gave_last_until_the_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(tmp_path, monkeypatch)
    debugfs = board.root / "sys/kernel/debug"
    apply_one(board, "udev")
    debugfs.chmod(0o710)  # what the rule does when it is run
    reverted = revert(System(board.root), [change_of(board, "udev")], no_report)
    assert "the group video has them until then" in reverted.waiting[0]
    debugfs.chmod(0o700)
    assert step_of(board, "udev").waits == ""


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    system, path = System(tmp_path), tmp_path / "etc/secret.conf"
    path.parent.mkdir()
    path.write_text("a")
    path.chmod(0o640)
    system.write("/etc/secret.conf", "b\udcff")
    assert path.stat().st_mode & 0o777 == 0o640 and path.read_bytes() == b"b\xff"
    system.write("/new/file", "c")
    assert (tmp_path / "new/file").stat().st_mode & 0o777 == 0o644


def test_a_program_reads_its_answer_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_board(tmp_path, monkeypatch)
    assert System(tmp_path).ask("cat", answer="no\n").stdout == "no\n"


def test_a_program_that_is_missing_or_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_board(tmp_path, monkeypatch)
    with pytest.raises(DeviceUnavailable, match="jetson_clocks was not found on PATH"):
        System(tmp_path).run("jetson_clocks")
    with pytest.raises(OrinError, match="`systemctl dance x` ended with 5 and said: Unit x"):
        System(tmp_path).run("systemctl", "dance", "x")
