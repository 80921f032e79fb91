"""Machines to test on: a tree of what their kernels show, and the tools that they have on PATH.

Values are those of real boards; files are written from them, none is a copy.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
SYSTEM_PATH = "/usr/bin:/bin"
RAILS = {"VDD_GPU_SOC": (5000, 3600), "VDD_CPU_CV": (5000, 1000), "VIN_SYS_5V0": (5000, 1600)}
AGX_WATTS = 31.0  # of these (mV, mA), which leave out what hangs off VIN_SYS_5V0
VDDQ = (1800, 1000)


@dataclass(frozen=True)
class Mode:
    id: int
    name: str
    cores: int
    cpu_khz: int
    tpc_mask: int
    gpu_hz: int
    emc_hz: int


MODES_64 = (
    Mode(0, "MAXN", 12, -1, 0, -1, -1),
    Mode(1, "MODE_15W", 4, 1113600, 248, 408000000, 2133000000),
    Mode(2, "MODE_30W", 8, 1728000, 240, 612000000, -1),
    Mode(3, "MODE_50W", 12, 1497600, 0, 816000000, -1),
)
MODES_32 = (
    Mode(0, "MAXN", 8, -1, 128, -1, -1),
    Mode(1, "MODE_15W", 4, 1113600, 248, 408000000, 2133000000),
    Mode(2, "MODE_30W", 8, 1728000, 240, 612000000, -1),
    Mode(3, "MODE_40W", 8, 1497600, 128, 816000000, -1),
)


@dataclass(frozen=True)
class Jetson:
    """An AGX Orin as it is set now; `root` tells whether what only root reads is readable."""

    part: str
    jetpack: str
    l4t: str
    ram_kib: int
    cores: int
    modes: tuple[Mode, ...]
    mode: str = "MODE_30W"
    emc_mhz: int = 3199
    emc_firmware_mhz: int = 3199
    root: bool = True
    model: str = "NVIDIA Jetson AGX Orin Developer Kit"

    def without_root(self) -> Jetson:
        return replace(self, root=False)

    @property
    def now(self) -> Mode:
        return next(mode for mode in self.modes if mode.name == self.mode)

    @property
    def line(self) -> str:
        """What tegrastats prints under load: 92 % GPU, 84 % of the memory's clock, 31 W."""
        cores = ["50%@1728" if n < self.now.cores else "off" for n in range(self.cores)]
        gpu = self.now.gpu_hz // 1000000 if self.now.gpu_hz > 0 else 1300
        emc = f"EMC_FREQ 84%@{self.emc_mhz} " if self.root else ""
        watts = {
            name: mv * ma // 1000 for name, (mv, ma) in {**RAILS, "VDDQ_VDD2_1V8AO": VDDQ}.items()
        }
        rails = " ".join(f"{name} {mw}mW/{mw // 2}mW" for name, mw in watts.items())
        ram = self.ram_kib // 1024
        names = ("CPU", "GPU", "tj") if self.jetpack.startswith("5") else ("cpu", "gpu", "tj")
        degrees = " ".join(
            f"{name}@{c}C" for name, c in zip(names, (55.5, 53.25, 56.0), strict=True)
        )
        return (
            f"11-30-2026 06:00:00 RAM {ram // 4}/{ram}MB (lfb 1024x4MB) SWAP 0/{ram // 2}MB "
            f"(cached 0MB) CPU [{','.join(cores)}] {emc}GR3D_FREQ 92%@[{gpu},0] NVDEC off APE 174 "
            f"{degrees} {rails}"
        )


AGX_64_JP6 = Jetson("p3701-0005", "6.2", "R36 (release), REVISION: 4.3", 64349384, 12, MODES_64)
AGX_64_JP5 = replace(AGX_64_JP6, jetpack="5.1", l4t="R35 (release), REVISION: 2.1")
AGX_32_JP6 = Jetson("p3701-0004", "6.2", "R36 (release), REVISION: 4.3", 31357952, 8, MODES_32)
AGX_32_JP5 = replace(AGX_32_JP6, jetpack="5.1", l4t="R35 (release), REVISION: 2.1")
_KNOWN = {
    "64GB-JP6": AGX_64_JP6,
    "64GB-JP5": AGX_64_JP5,
    "32GB-JP6": AGX_32_JP6,
    "32GB-JP5": AGX_32_JP5,
}
JETSONS = _KNOWN | {f"{name}-user": board.without_root() for name, board in _KNOWN.items()}


@dataclass(frozen=True)
class Machine:
    """A tree that stands for `/`, and a folder to put in front of PATH."""

    root: Path
    bin: Path

    @property
    def path(self) -> str:
        return f"{self.bin}:{SYSTEM_PATH}"

    def write(self, name: str, content: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def tool(self, name: str, script: str) -> None:
        self.bin.mkdir(parents=True, exist_ok=True)
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def tegrastats(self, *lines: str) -> None:
        """A tegrastats that prints these lines, one each interval, over and over."""
        self.bin.mkdir(parents=True, exist_ok=True)
        program = self.bin / "tegrastats"
        (self.bin / "tegrastats.lines").write_text("".join(f"{line}\n" for line in lines))
        if not program.exists():
            os.symlink(HERE / "tegrastats" / "tegrastats", program)


def pc(folder: Path) -> Machine:
    """Four cores, no GPU, and a nvidia-smi that hides one which the real machine may have."""
    machine = Machine(folder / "root", folder / "bin")
    machine.write("sys/class/dmi/id/product_name", "Workstation 4\n")
    _linux(machine, 4, 4, 16384000)
    machine.tool("nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    return machine


def pc_with_gpu(folder: Path) -> Machine:
    """The same with a GPU of its own."""
    machine = pc(folder)
    machine.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    machine.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n")
    row = "0, GPU-aaaa, NVIDIA RTX 4090, 24564, 24000, 8.9, 570.00"
    machine.tool("nvidia-smi", f"echo '{row}'")
    return machine


def jetson(folder: Path, board: Jetson) -> Machine:
    """A Jetson with its tools."""
    machine = Machine(folder / "root", folder / "bin")
    names = (f"nvidia,p3737-0000+{board.part}", f"nvidia,{board.part}", "nvidia,tegra234")
    machine.write("proc/device-tree/compatible", "".join(f"{name}\0" for name in names))
    machine.write("proc/device-tree/model", f"{board.model}\0")
    machine.write("dev/nvmap", "")
    release = f"# {board.l4t}, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: a day\n"
    machine.write("etc/nv_tegra_release", f"{release}# KERNEL_VARIANT: oot\n")
    machine.write("etc/nvpmodel.conf", nvpmodel_conf(board.modes))
    machine.write("var/lib/nvpmodel/status", f"pmode:{board.now.id:04d} fmode:fan_mode_quiet\n")
    _linux(machine, board.cores, board.now.cores, board.ram_kib)
    machine.write("proc/meminfo", f"{meminfo(board.ram_kib)}NvMapMemUsed: 4194304 kB\n")
    _gpu(machine, board)
    _memory_clock(machine, board)
    _sensors(machine, board)
    machine.tegrastats(board.line)
    answer = f"NVPM WARN: fan mode is not set!\\nNV Power Mode: {board.mode}\\n{board.now.id}\\n"
    machine.tool("nvpmodel", f"[ \"$1\" = -q ] && printf '{answer}'")
    return machine


def nvpmodel_conf(modes: tuple[Mode, ...], default: int = 2) -> str:
    """In the syntax of /etc/nvpmodel.conf, as little as tells the modes apart."""
    lines = ["# modes of a board", "< PARAM TYPE=FILE NAME=CPU_ONLINE >"]
    lines += ["CORE_0 /sys/devices/system/cpu/cpu0/online", "<PARAM TYPE=CLOCK NAME=EMC >"]
    lines += ["MAX_FREQ /sys/kernel/nvpmodel_clk_cap/emc", ""]
    total = max(mode.cores for mode in modes)
    for mode in modes:
        lines.append(f"< POWER_MODEL ID={mode.id} NAME={mode.name} >")
        lines += [f"CPU_ONLINE CORE_{n} {int(n < mode.cores)}" for n in range(total)]
        lines.append(f"TPC_POWER_GATING TPC_PG_MASK {mode.tpc_mask}")
        lines.append("GPU_POWER_CONTROL_ENABLE GPU_PWR_CNTL_EN on")
        for cluster in range(-(-mode.cores // 4)):
            lines.append(f"CPU_A78_{cluster} MIN_FREQ 729600")
            lines.append(f"CPU_A78_{cluster} MAX_FREQ {mode.cpu_khz}")
        lines += ["GPU MIN_FREQ 0", f"GPU MAX_FREQ {mode.gpu_hz}", f"EMC MAX_FREQ {mode.emc_hz}"]
        lines += ["DLA0_CORE MAX_FREQ -1", ""]
    return "\n".join([*lines, f"< PM_CONFIG DEFAULT={default} >", ""])


def meminfo(total_kib: int) -> str:
    rows = {"MemTotal": total_kib, "MemFree": total_kib // 8, "MemAvailable": total_kib // 2}
    rows |= {"Cached": total_kib // 4, "SwapTotal": total_kib // 4, "SwapFree": total_kib // 8}
    return "".join(f"{name}: {kib} kB\n" for name, kib in rows.items())


def proc_stat(busy: list[int], idle: list[int]) -> str:
    """/proc/stat with these ticks of each core."""
    rows = [
        f"cpu{n} {b} 0 0 {i} 0 0 0 0 0 0" for n, (b, i) in enumerate(zip(busy, idle, strict=True))
    ]
    return "\n".join([f"cpu  {sum(busy)} 0 0 {sum(idle)} 0 0 0 0 0 0", *rows, "intr 1 2 3", ""])


def _linux(machine: Machine, cores: int, online: int, ram_kib: int) -> None:
    machine.write("proc/stat", proc_stat([100] * online, [900] * online))
    machine.write("proc/meminfo", meminfo(ram_kib))
    machine.write("sys/devices/system/cpu/present", f"0-{cores - 1}\n")
    machine.write("sys/devices/system/cpu/online", f"0-{online - 1}\n")
    for n in range(online):
        folder = f"sys/devices/system/cpu/cpu{n}/cpufreq"
        machine.write(f"{folder}/scaling_cur_freq", "1728000\n")
        machine.write(f"{folder}/scaling_max_freq", "2201600\n")


def _gpu(machine: Machine, board: Jetson) -> None:
    newer = board.jetpack.startswith("6")
    device = "sys/devices/platform/gpu.0" if newer else "sys/devices/gpu.0"
    clock = (
        "sys/devices/platform/17000000.gpu/devfreq_dev"
        if newer
        else "sys/devices/17000000.ga10b/devfreq/17000000.ga10b"
    )
    most = board.now.gpu_hz if board.now.gpu_hz > 0 else 1300500000
    machine.write(f"{device}/load", "920\n")
    machine.write(f"{device}/tpc_pg_mask", f"{board.now.tpc_mask}\n")
    machine.write(f"{clock}/cur_freq", f"{most}\n")
    machine.write(f"{clock}/max_freq", f"{most}\n")
    machine.write(f"{clock}/min_freq", "306000000\n")


def _memory_clock(machine: Machine, board: Jetson) -> None:
    newer = board.jetpack.startswith("6")
    cap = "nvpmodel_clk_cap/emc" if newer else "nvpmodel_emc_cap/emc_iso_cap"
    # "No cap" is the largest integer, or 0 in the older kernel.
    none = 2147483647 if newer else 0
    machine.write(f"sys/kernel/{cap}", f"{board.now.emc_hz if board.now.emc_hz > 0 else none}\n")
    if board.root:
        folder = "sys/kernel/debug/bpmp/debug/clk/emc"
        machine.write(f"{folder}/rate", f"{board.emc_mhz * 1000000}\n")
        machine.write(f"{folder}/max_rate", f"{board.emc_firmware_mhz * 1000000}\n")


def _sensors(machine: Machine, board: Jetson) -> None:
    newer = board.jetpack.startswith("6")
    zones = {"cpu": 55500, "gpu": 53250, "cv0": -256000, "tj": 56000}
    for n, (name, milli) in enumerate(zones.items()):
        kind = f"{name}-thermal" if newer else f"{name.upper()}-therm"
        machine.write(f"sys/class/thermal/thermal_zone{n}/type", f"{kind}\n")
        machine.write(f"sys/class/thermal/thermal_zone{n}/temp", f"{milli}\n")
    for n, name in enumerate(("pwm-fan", "cpu-throttle-alert", "gpu-throttle-alert")):
        machine.write(f"sys/class/thermal/cooling_device{n}/type", f"{name}\n")
        machine.write(f"sys/class/thermal/cooling_device{n}/cur_state", f"{int(n == 0)}\n")
    first, second = "sys/class/hwmon/hwmon1", "sys/class/hwmon/hwmon4"
    for folder, rails in ((first, RAILS), (second, {"NC": (0, 0), "VDDQ_VDD2_1V8AO": VDDQ})):
        machine.write(f"{folder}/name", "ina3221\n")
        for n, (rail, (millivolt, milliampere)) in enumerate(rails.items(), 1):
            machine.write(f"{folder}/in{n}_label", f"{rail}\n")
            machine.write(f"{folder}/in{n}_input", f"{millivolt}\n")
            machine.write(f"{folder}/curr{n}_input", f"{milliampere}\n")
        machine.write(f"{folder}/in7_label", "sum of shunt voltages\n")
        machine.write(f"{folder}/in7_input", "9\n")
    machine.write("sys/class/hwmon/hwmon2/name", "soctherm_oc\n")
    for n, events in enumerate((0, 2, 1), 1):
        machine.write(f"sys/class/hwmon/hwmon2/oc{n}_event_cnt", f"{events}\n")
