"""scripts/flash_orin.sh on a host whose every program is a fake, with a BSP made of fakes."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pexpect
import pytest
from flash_host import (
    BOARD_ID,
    FREE_KB,
    HUB,
    ORIN_32,
    ORIN_64,
    ORIN_NANO,
    REPOSITORY,
    RUNNING,
    SCRIPT,
    Host,
    bsp_of,
    make_bsp,
    make_host,
)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


NVME = (
    "./tools/kernel_flash/l4t_initrd_flash.sh --external-device nvme0n1p1 "
    "-c tools/kernel_flash/flash_l4t_t234_nvme.xml --showlogs --network usb0 "
    "jetson-agx-orin-devkit external"
)


def test_nvme_is_flashed_by_the_initrd_tool_after_the_board_was_asked(host: Host) -> None:
    done = host.flash("--yes", "--no-setup")
    assert done.returncode == 0, done.stderr
    assert "erases the NVMe drive of the board, and the eMMC" in done.stderr
    commands = [line for line in host.log if line.startswith("sudo ")]
    assert commands == ["sudo ./nvautoflash.sh --print_boardid", f"sudo {NVME}"]
    assert host.flashed() == [NVME.removeprefix("./tools/kernel_flash/")]


def test_emmc_is_flashed_by_flash_sh(host: Host) -> None:
    assert host.flash("--yes", "--no-setup", "--storage", "emmc").returncode == 0
    assert host.flashed() == ["flash.sh jetson-agx-orin-devkit internal"]


def test_the_partition_layout_of_jetpack_5_has_another_name(host: Host) -> None:
    bsp = make_bsp(host.root / "r35", "35 (release), REVISION: 4.1")
    assert host.flash("--yes", "--no-setup", "--bsp", str(bsp)).returncode == 0
    assert "-c tools/kernel_flash/flash_l4t_external.xml " in host.flashed()[0]


def test_the_toolkit_is_not_handed_to_jetpack_5(host: Host) -> None:
    bsp = make_bsp(host.root / "r35", "35 (release), REVISION: 4.1")
    done = host.flash("--yes", "--bsp", str(bsp))
    assert done.returncode == 4 and "take a BSP of release 36" in done.stderr
    assert host.flashed() == []


def test_root_needs_no_sudo(host: Host) -> None:
    host.told["FAKE_id_prints"] = "0"
    assert host.flash("--yes", "--no-setup").returncode == 0
    assert not any(line.startswith("sudo") for line in host.log)
    assert len(host.flashed()) == 1


def test_the_newest_release_among_the_usual_places_is_taken(host: Host) -> None:
    newest = make_bsp(host.home / "Linux_for_Tegra", "36 (release), REVISION: 4.10")
    make_bsp(host.home / "nvidia/nvidia_sdk/Z/Linux_for_Tegra", "35 (release), REVISION: 6.1")
    done = host.flash("--dry-run")
    assert f"BSP: {newest}, release 36.4.10" in done.stderr
    assert f"(cd {newest} && sudo ./tools" in done.stdout


def test_a_dry_run_prints_what_a_run_does_and_runs_nothing(host: Host) -> None:
    done = host.flash("--dry-run")
    assert done.returncode == 0, done.stderr
    bsp = bsp_of(host)
    printed = done.stdout.splitlines()
    assert printed[0] == f"(cd {bsp} && sudo ./nvautoflash.sh --print_boardid)"
    assert printed[-1] == f"(cd {bsp} && sudo {NVME})"
    assert {line.split()[0] for line in host.log} <= {"uname", "df", "lsusb", "id"}

    assert host.flash("--yes").returncode == 0
    ran = [line for line in host.log if line.startswith("sudo ")]
    commands = [line.removesuffix(")").split(" && ", 1)[1] for line in printed]
    assert [shlex.split(line) for line in commands] == [line.split() for line in ran]


def test_a_dry_run_needs_no_board_and_tells_what_stands_against_a_run(host: Host) -> None:
    host.told |= {"FAKE_lsusb_prints": HUB, "FAKE_df_prints": FREE_KB.format(29_000_000)}
    done = host.flash("--dry-run")
    assert done.returncode == 0 and NVME in done.stdout
    assert "problem: no Jetson in recovery mode" in done.stderr
    assert "problem: 29 GB are free" in done.stderr


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"FAKE_uname_prints": "Linux aarch64"}, "this host is Linux aarch64"),
        ({"FAKE_df_prints": FREE_KB.format(29_999_999)}, "30 GB are needed"),
        ({"FAKE_lsusb_prints": HUB}, "no Jetson in recovery mode"),
        ({"FAKE_lsusb_exit": "1", "FAKE_lsusb_prints": ""}, "no Jetson in recovery mode"),
        ({"FAKE_lsusb_prints": RUNNING}, "the Jetson is running Linux"),
        ({"FAKE_lsusb_prints": ORIN_NANO}, "a Jetson Orin Nano is connected (0955:7523)"),
        ({"FAKE_lsusb_prints": ORIN_64 + ORIN_32}, "2 Jetsons are in recovery mode"),
    ],
)
def test_what_is_not_ready_is_refused_before_anything_runs_as_root(
    host: Host, told: dict[str, str], complaint: str
) -> None:
    host.told |= told
    done = host.flash("--yes")
    assert done.returncode == 4
    assert complaint in done.stderr
    assert host.flashed() == [] and not any(line.startswith("sudo") for line in host.log)


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        (BOARD_ID.replace("3701", "3767"), "the board is P3767-0005"),
        (BOARD_ID.replace("0005", "0099"), "the board is P3701-0099"),
        (BOARD_ID.replace("0005", "0008"), "--board jetson-agx-orin-devkit-industrial"),
        ("Error: probing the target board failed.\n", "probing the target board failed"),
        ("", "did not tell what it is"),
    ],
)
def test_the_wrong_board_is_refused_by_its_own_word(
    host: Host, output: str, complaint: str
) -> None:
    host.told["FAKE_nvautoflash_prints"] = output
    done = host.flash("--yes")
    assert done.returncode == 4
    assert complaint in done.stderr
    assert host.flashed() == []


@pytest.mark.parametrize("sku", ["0000", "0004", "0005"])
def test_every_agx_orin_module_is_taken(host: Host, sku: str) -> None:
    one_line = f"Board ID(3701) version(300) sku({sku}) revision(E.1) Chip SKU(00:00:00:D0)\n"
    for output in (BOARD_ID.replace("0005", sku), one_line):
        host.told["FAKE_nvautoflash_prints"] = output
        assert host.flash("--yes", "--no-setup").returncode == 0


def test_the_industrial_module_has_a_configuration_of_its_own(host: Host) -> None:
    host.told["FAKE_nvautoflash_prints"] = BOARD_ID.replace("0005", "0008")
    industrial = "jetson-agx-orin-devkit-industrial"
    assert host.flash("--yes", "--no-setup", "--board", industrial).returncode == 0
    assert host.flashed()[0].endswith(f"{industrial} external")
    host.told["FAKE_nvautoflash_prints"] = BOARD_ID
    done = host.flash("--yes", "--no-setup", "--board", industrial)
    assert done.returncode == 4 and len(host.flashed()) == 1


def test_a_board_that_the_bsp_does_not_know_is_refused(host: Host) -> None:
    done = host.flash("--yes", "--board", "other-carrier")
    assert done.returncode == 4 and "has no other-carrier.conf" in done.stderr


@pytest.mark.parametrize(
    ("missing", "complaint"),
    [
        ("rootfs/usr", "unpack the sample root file system"),
        ("rootfs/etc/nv_tegra_release", "run sudo ./apply_binaries.sh"),
        ("tools/kernel_flash/flash_l4t_t234_nvme.xml", "the BSP is not complete"),
    ],
)
def test_an_incomplete_bsp_is_refused(host: Host, missing: str, complaint: str) -> None:
    path = bsp_of(host) / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = host.flash("--yes")
    assert done.returncode == 4
    assert complaint in done.stderr
    assert host.flashed() == []


def test_a_release_whose_command_line_is_not_known_is_refused(host: Host) -> None:
    bsp = make_bsp(host.root / "r39", "39 (release), REVISION: 2.1")
    done = host.flash("--yes", "--bsp", str(bsp))
    assert done.returncode == 4 and "release 39.2.1" in done.stderr and host.flashed() == []


def test_the_release_that_breaks_large_allocations_is_warned_of(host: Host) -> None:
    bsp = make_bsp(host.root / "r36", "36 (release), REVISION: 4.7")
    done = host.flash("--dry-run", "--bsp", str(bsp))
    assert "warning: large GPU allocations fail on release 36.4.7" in done.stderr


@pytest.mark.parametrize("command", ["lsusb", "abootimg", "xmllint"])
def test_a_missing_command_is_named(host: Host, command: str) -> None:
    (host.root / "bin" / command).unlink()
    done = host.flash("--yes")
    assert done.returncode == 4
    assert f"commands are missing: {command} " in done.stderr


def test_no_bsp_anywhere_is_said(host: Host) -> None:
    shutil.rmtree(host.home / "nvidia")
    done = host.flash("--yes")
    assert done.returncode == 4 and "error: no BSP" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--storage", "sdcard"],
        ["--storage"],
        ["--with", "magic"],
        ["--jetpack", "6.2"],
        ["--with", "sdkmanager"],
        ["--with", "sdkmanager", "--jetpack", "6.2", "--storage", "nvme"],
        ["--erase-everything"],
    ],
)
def test_wrong_usage_is_status_2_and_touches_nothing(host: Host, arguments: list[str]) -> None:
    done = host.flash("--yes", *arguments)
    assert done.returncode == 2 and done.stderr.startswith("error: ")
    assert host.flashed() == []


def test_nothing_is_erased_without_a_yes_where_nobody_can_be_asked(host: Host) -> None:
    done = host.flash()
    assert done.returncode == 2 and "say --yes" in done.stderr
    assert host.flashed() == []


@pytest.mark.parametrize(("answer", "status"), [("ERASE", 0), ("y", 1), ("", 1)])
def test_only_the_word_erase_is_a_yes(host: Host, answer: str, status: int) -> None:
    terminal = pexpect.spawn(
        "bash",
        [str(SCRIPT), "--no-setup"],
        env={**os.environ, **host.env},
        cwd=str(host.root),
        timeout=60,
        encoding="utf-8",
    )
    terminal.expect_exact("Type ERASE to go on: ")
    assert host.flashed() == []
    terminal.sendline(answer)
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == status
    assert len(host.flashed()) == (1 if status == 0 else 0)


def test_a_failed_flash_ends_with_1_and_what_to_try(host: Host) -> None:
    host.told["FAKE_l4t_initrd_flash_exit"] = "3"
    done = host.flash("--yes", "--no-setup")
    assert done.returncode == 1 and "error: flashing failed" in done.stderr


@pytest.mark.parametrize("tool", ["rsync", "sudo"])
def test_a_toolkit_that_cannot_be_copied_stops_before_anything_is_erased(
    host: Host, tool: str
) -> None:
    if tool == "sudo":
        (host.root / "bin/sudo").write_text('#!/bin/sh\n[ "$1" != cp ] && exec "$@"\n')
    else:
        host.told["FAKE_rsync_exit"] = "23"
    done = host.flash("--yes")
    assert done.returncode == 1 and "the toolkit could not be copied" in done.stderr
    assert host.flashed() == []


def test_the_image_takes_the_toolkit_along_and_sets_the_board_up_at_first_boot(host: Host) -> None:
    done = host.flash("--yes")
    assert done.returncode == 0 and "At first boot" in done.stderr
    rootfs = bsp_of(host) / "rootfs"
    unit = rootfs / "etc/systemd/system/orin-llm-first-boot.service"
    assert "ExecStart=/opt/orin-llm/scripts/setup_orin.sh apply" in unit.read_text()
    wanted = rootfs / "etc/systemd/system/multi-user.target.wants/orin-llm-first-boot.service"
    assert os.readlink(wanted) == "/etc/systemd/system/orin-llm-first-boot.service"
    (copied,) = [line.split() for line in host.log if line.startswith("rsync ")]
    assert copied[-1] == f"{rootfs}/opt/orin-llm/" and (rootfs / "opt/orin-llm").is_dir()
    sources = copied[copied.index("__pycache__") + 1 : -1]
    assert {"orin_llm", "scripts", "cpp", "cuda", "setup.py", "calibration", "docs"} <= set(sources)
    assert all((REPOSITORY / source).exists() for source in sources)
    last = [line for line in host.log if line.split()[0] in ("rsync", "l4t_initrd_flash.sh")]
    assert last[-1].startswith("l4t_initrd_flash.sh")


def test_sdk_manager_is_run_as_the_user_and_asks_for_the_licence_itself(host: Host) -> None:
    done = host.flash("--yes", "--with", "sdkmanager", "--jetpack", "6.2.1")
    assert done.returncode == 0, done.stderr
    (command,) = host.flashed()
    assert "--version 6.2.1 --target JETSON_AGX_ORIN_TARGETS --flash" in command
    assert "license" not in command and not any(line.startswith("sudo") for line in host.log)
    assert "scripts/setup_orin.sh" in done.stderr


def test_sdk_manager_needs_more_room_and_the_right_board_too(host: Host) -> None:
    host.told |= {"FAKE_df_prints": FREE_KB.format(59_000_000), "FAKE_lsusb_prints": ORIN_NANO}
    done = host.flash("--yes", "--with", "sdkmanager", "--jetpack", "6.2.1")
    assert done.returncode == 4 and host.flashed() == []
    assert "60 GB are needed" in done.stderr and "Jetson Orin Nano" in done.stderr


def test_help_is_the_head_of_the_script(host: Host) -> None:
    done = host.flash("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Flashes a Jetson AGX Orin") and "Exit status" in done.stdout
