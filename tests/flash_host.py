"""A host for flash_orin.sh: every program that it calls is a fake, and the BSP is made of fakes."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SCRIPT = REPOSITORY / "scripts/flash_orin.sh"
FAKES = REPOSITORY / "tests/fakes/flash"
# The only real programs that the script can reach.
REAL = [
    "sh", "bash", "dirname", "basename", "realpath", "sed", "awk", "grep", "sort", "tail", "head",
    "cut", "tr", "mkdir", "cp", "ln", "cat",
]  # fmt: skip
FAKED = [
    "lsusb", "df", "uname", "id", "sleep", "sdkmanager", "abootimg", "cpio", "dtc", "rsync",
    "sshpass", "xmllint", "xxd",
]  # fmt: skip
BSP_TOOLS = ["flash.sh", "nvautoflash.sh", "tools/kernel_flash/l4t_initrd_flash.sh"]

ORIN_64 = "Bus 001 Device 009: ID 0955:7023 NVIDIA Corp. APX\n"
ORIN_32 = "Bus 001 Device 009: ID 0955:7223 NVIDIA Corp. APX\n"
ORIN_NANO = "Bus 001 Device 009: ID 0955:7523 NVIDIA Corp. APX\n"
RUNNING = "Bus 001 Device 009: ID 0955:7020 NVIDIA Corp. L4T running on Tegra\n"
HUB = "Bus 001 Device 001: ID 1d6b:0002 Linux Foundation 2.0 root hub\n"
BOARD_ID = """--- Parsing board ID (3701) succeeded.
--- Parsing board version (500) succeeded.
--- Parsing board SKU (0005) succeeded.
--- Parsing board REV (J.0) succeeded.
jetson-agx-orin-devkit found.
"""
FREE_KB = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda 9 9 {} 1% /\n"


@dataclass
class Host:
    """A host: its folder of programs, its home, and what the fakes are told."""

    root: Path
    told: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def log(self) -> list[str]:
        path = self.root / "log"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": str(self.root / "bin"),
            "HOME": str(self.home),
            "FAKE_LOG": str(self.root / "log"),
            **self.told,
        }

    def install(self, name: str, fake: str = "recorder") -> None:
        shutil.copy(FAKES / fake, self.root / "bin" / name)

    def flash(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(SCRIPT), *arguments],
            env=self.env,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def flashed(self) -> list[str]:
        """The commands that write to a board, as they were run."""
        writers = ("flash.sh ", "l4t_initrd_flash.sh ", "sdkmanager ")
        return [line for line in self.log if line.startswith(writers)]


def make_bsp(folder: Path, release: str = "36 (release), REVISION: 4.4") -> Path:
    (folder / "tools/kernel_flash").mkdir(parents=True)
    (folder / "rootfs/usr").mkdir(parents=True)
    (folder / "rootfs/etc").mkdir()
    (folder / "rootfs/etc/nv_tegra_release").write_text(
        f"# R{release}, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: x\n"
    )
    for name in BSP_TOOLS:
        shutil.copy(FAKES / "recorder", folder / name)
    for board in ("jetson-agx-orin-devkit", "jetson-agx-orin-devkit-industrial"):
        (folder / f"{board}.conf").touch()
    for layout in ("flash_l4t_t234_nvme.xml", "flash_l4t_external.xml"):
        (folder / "tools/kernel_flash" / layout).touch()
    return folder


def make_host(tmp_path: Path) -> Host:
    """A host that has everything: tools, room, a BSP of release 36.4.4, one AGX Orin 64 GB."""
    made = Host(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in REAL:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    for name in FAKED:
        made.install(name)
    made.install("sudo", "sudo")
    make_bsp(made.home / "nvidia/nvidia_sdk/JetPack_6.2.1/Linux_for_Tegra")
    made.told = {
        "FAKE_uname_prints": "Linux x86_64",
        "FAKE_id_prints": "1000",
        "FAKE_df_prints": FREE_KB.format(90_000_000),
        "FAKE_lsusb_prints": HUB + ORIN_64,
        "FAKE_nvautoflash_prints": BOARD_ID,
    }
    return made


def bsp_of(host: Host) -> Path:
    return host.home / "nvidia/nvidia_sdk/JetPack_6.2.1/Linux_for_Tegra"
