"""A board of `fakes.boards` with what the setup changes, and fakes on PATH that act on its tree."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes import boards

FAKES = Path(__file__).parent / "fakes/setup"
SWAP_TOOLS = ("fallocate", "mkswap", "swapon", "swapoff")
REAL = ("sh", "env", "basename", "cat", "touch", "rm", "mv", "grep", "truncate", "cp", "mkdir")

FAN = """<FAN 1>
	FAN_PROFILE quiet {
		#TEMP HYST PWM RPM
		0 0 0 0
	}
	FAN_PROFILE cool {
		0 0 255 2900
	}
	FAN_DEFAULT_CONTROL open_loop
	FAN_DEFAULT_PROFILE quiet
	FAN_DEFAULT_GOVERNOR pid
"""


@dataclass(frozen=True)
class SetupBoard:
    """A board's tree, and the log of all that was called."""

    board: boards.Jetson
    root: Path
    bin: Path
    log_file: Path

    @property
    def log(self) -> list[str]:
        return self.log_file.read_text().splitlines() if self.log_file.exists() else []

    def forget(self) -> None:
        self.log_file.unlink(missing_ok=True)

    def text(self, name: str) -> str:
        return (self.root / name).read_text()

    def files(self) -> dict[str, str]:
        """What every file holds that outlives a reboot: equal if nothing changed in between.

        Of a swap file its size.
        """
        return {
            str(path.relative_to(self.root)): (
                path.read_text() if path.stat().st_size < 10**6 else f"{path.stat().st_size} bytes"
            )
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not path.is_relative_to(self.root / "run")
        }

    def configuration(self) -> dict[str, str]:
        """The same but for the fan's cache, which its service makes anew."""
        files = self.files()
        files.pop("var/lib/nvfancontrol/status", None)
        return files

    def once(self, call: str, script: str) -> dict[str, str]:
        """Variables with which the first program that is called like this runs `script` before."""
        name, _, arguments = call.partition(" ")
        folder = self.root.parent / f"once {call}".replace("/", "_")
        folder.mkdir()
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nif [ ! -e "{folder}/done" ]; then case "$*" in "{arguments}"*)\n'
            f'touch "{folder}/done"\n{script}\n;; esac; fi\nexec {self.bin / name} "$@"\n'
        )
        program.chmod(0o755)
        return {"PATH": f"{folder}:{self.bin}"}

    def reboot(self) -> None:
        """What a reboot does to what the setup changes."""
        status = self.text("var/lib/nvpmodel/status")
        number = int(status.split()[0].removeprefix("pmode:"))
        (self.root / "fake/pmode").write_text(str(number))
        (mode,) = [mode for mode in self.board.modes if mode.id == number]
        (mask,) = self.root.glob("sys/devices/**/tpc_pg_mask")
        mask.write_text(f"{mode.tpc_mask}\n")
        graphical = self.root / "fake/active/graphical.target"
        graphical.unlink(missing_ok=True)
        if self.text("fake/default").strip() == "graphical.target":
            graphical.touch()
        swaps = self.text("proc/swaps").splitlines(keepends=True)
        zram = "/dev/zram0 partition 1 0 5\n"
        kept = [line for line in swaps if line != zram]
        if (self.root / "fake/enabled/nvzramconfig").exists():
            kept.append(zram)
        (self.root / "proc/swaps").write_text("".join(kept))


def make_board(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    board: boards.Jetson = boards.AGX_64_JP6,
    nvme: str | None = "/",
) -> SetupBoard:
    """A board as it is shipped: 30 W, desktop, zram, quiet fan. `nvme`: where that is mounted."""
    machine = boards.jetson(folder, board)
    disk = f"/dev/nvme0n1p1 {nvme} ext4 rw 0 0\n" if nvme else "/dev/mmcblk0p1 / ext4 rw 0 0\n"
    contents = {
        "proc/mounts": f"proc /proc proc rw 0 0\n{disk}",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 5\n",
        "etc/nvfancontrol.conf": FAN,
        "etc/fstab": "# <file system>\n/dev/root / ext4 defaults 0 1\n",
        "etc/group": "root:x:0:\nvideo:x:44:gdm\njtop:x:998:\n",
        "var/lib/nvfancontrol/status": "FAN_PROFILE quiet\n",
        "fake/pmode": str(board.now.id),
        "fake/default": "graphical.target\n",
        "fake/units/nvzramconfig": "",
        "fake/units/nvfancontrol": "",
        "fake/enabled/nvzramconfig": "",
        "fake/enabled/nvfancontrol": "",
        "fake/active/nvfancontrol": "",
        "fake/active/graphical.target": "",
    }
    for name, text in contents.items():
        machine.write(name, text)
    for node in machine.root.glob("sys/kernel/nvpmodel_*_cap/*"):
        node.write_text("2133000000\n")  # what some boards start with
    debugfs = machine.root / "sys/kernel/debug"
    debugfs.mkdir(exist_ok=True)
    debugfs.chmod(0o700)
    for fake in FAKES.iterdir():
        for name in SWAP_TOOLS if fake.name == "swap" else (fake.name,):
            shutil.copy(fake, machine.bin / name)
    for name in REAL:
        found = shutil.which(name)
        assert found is not None
        (machine.bin / name).symlink_to(found)
    (machine.bin / "python3").symlink_to(sys.executable)
    log = folder / "log"
    for variable, value in {
        "PATH": str(machine.bin),
        "FAKE_ROOT": str(machine.root),
        "FAKE_LOG": str(log),
        "SUDO_USER": "ada",
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("FAKE_FAIL", raising=False)
    return SetupBoard(board, machine.root, machine.bin, log)
