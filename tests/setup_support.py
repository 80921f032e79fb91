"""Boards for tests of the setup: trees that stand for /, and a PATH of fakes that act on them."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes/setup"
SWAP_TOOLS = ("fallocate", "mkswap", "swapon", "swapoff")
REAL = ("sh", "env", "basename", "cat", "touch", "rm", "mv", "grep", "truncate", "cp", "mkdir")

COMPATIBLE = {
    "64gb": "nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0",
    "32gb": "nvidia,p3737-0000+p3701-0004\0nvidia,p3701-0004\0nvidia,tegra234\0",
}
# (id, name, TPC mask, highest clock of the memory)
MODES = {
    "64gb": [(0, "MAXN", 0, 0), (1, "MODE_15W", 248, 2133000000), (2, "MODE_30W", 240, 0),
             (3, "MODE_50W", 0, 0)],
    "32gb": [(0, "MAXN", 128, 0), (1, "MODE_15W", 248, 2133000000), (2, "MODE_30W", 240, 0),
             (3, "MODE_40W", 128, 0)],
}  # fmt: skip
RELEASE = {
    5: "# R35 (release), REVISION: 4.1, GCID: 1, BOARD: t186ref, EABI: aarch64, DATE: x\n",
    6: "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64, DATE: x\n",
}
EMC_CAP = {
    5: "sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
    6: "sys/kernel/nvpmodel_clk_cap/emc",
}
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
class FakeBoard:
    """A board's tree, and the log of all that was called."""

    root: Path
    log_file: Path

    @property
    def log(self) -> list[str]:
        return self.log_file.read_text().splitlines() if self.log_file.exists() else []

    def forget(self) -> None:
        self.log_file.unlink(missing_ok=True)

    def text(self, name: str) -> str:
        return (self.root / name).read_text()

    def files(self) -> dict[str, str]:
        """Every file's content (a swap file's size): equal if nothing changed in between."""
        return {
            str(path.relative_to(self.root)): (
                path.read_text() if path.stat().st_size < 10**6 else f"{path.stat().st_size} bytes"
            )
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def reboot(self) -> None:
        """What a reboot does to what the setup changes."""
        status = self.text("var/lib/nvpmodel/status")
        number = int(status.split()[0].removeprefix("pmode:"))
        (self.root / "fake/pmode").write_text(str(number))
        (mode,) = [mode for mode in MODES["64gb"] if mode[0] == number]
        (self.root / "sys/devices/platform/gpu.0/tpc_pg_mask").write_text(f"{mode[2]}\n")
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


def nvpmodel_conf(kind: str) -> str:
    text = "< PARAM TYPE=FILE NAME=TPC_POWER_GATING >\nTPC_PG_MASK /sys/devices/gpu.0/tpc_pg_mask\n"
    for number, name, mask, emc in MODES[kind]:
        text += f"< POWER_MODEL ID={number} NAME={name} >\nTPC_POWER_GATING TPC_PG_MASK {mask}\n"
        text += f"EMC MAX_FREQ {emc}\n"
    return text + "< PM_CONFIG DEFAULT=2 >\n"


def make_board(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str = "64gb",
    jetpack: int = 6,
    nvme: str | None = "/",
) -> FakeBoard:
    """A board as it is shipped: 30 W, desktop, zram, quiet fan. `nvme`: where that is mounted."""
    root, programs = folder / "root", folder / "bin"
    disk = f"/dev/nvme0n1p1 {nvme} ext4 rw 0 0\n" if nvme else "/dev/mmcblk0p1 / ext4 rw 0 0\n"
    contents = {
        "proc/device-tree/compatible": COMPATIBLE[kind],
        "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
        "proc/mounts": f"proc /proc proc rw 0 0\n{disk}",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 5\n",
        "etc/nv_tegra_release": RELEASE[jetpack],
        "etc/nvpmodel.conf": nvpmodel_conf(kind),
        "etc/nvfancontrol.conf": FAN,
        "etc/fstab": "# <file system>\n/dev/root / ext4 defaults 0 1\n",
        "etc/group": "root:x:0:\nvideo:x:44:gdm\njtop:x:998:\n",
        "var/lib/nvpmodel/status": "pmode:0002 fmode:fan_mode_quiet\n",
        "var/lib/nvfancontrol/status": "FAN_PROFILE quiet\n",
        "sys/devices/platform/gpu.0/tpc_pg_mask": "240\n",
        EMC_CAP[jetpack]: "2133000000\n",
        "fake/pmode": "2",
        "fake/default": "graphical.target\n",
        "fake/units/nvzramconfig": "",
        "fake/units/nvfancontrol": "",
        "fake/enabled/nvzramconfig": "",
        "fake/enabled/nvfancontrol": "",
        "fake/active/nvfancontrol": "",
        "fake/active/graphical.target": "",
    }
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    programs.mkdir()
    for fake in FAKES.iterdir():
        for name in SWAP_TOOLS if fake.name == "swap" else (fake.name,):
            shutil.copy(fake, programs / name)
    for name in REAL:
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    (programs / "python3").symlink_to(sys.executable)
    log = folder / "log"
    for variable, value in {
        "PATH": str(programs),
        "FAKE_ROOT": str(root),
        "FAKE_LOG": str(log),
        "SUDO_USER": "ada",
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("FAKE_FAIL", raising=False)
    return FakeBoard(root, log)
