"""Processors read from copies of what Linux shows of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orin_llm.host.cpu import Cpu, read_cpu

ORIN = """processor\t: 0
BogoMIPS\t: 62.50
Features\t: fp asimd evtstrm aes atomics fphp asimdhp cpuid asimdrdm lrcpc asimddp uscat flagm
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd42
CPU revision\t: 1
"""
EPYC = """processor\t: 0
model name\t: AMD EPYC 9354 32-Core Processor
flags\t\t: fpu sse4_2 avx f16c fma avx2 bmi2 avx512f avx512vbmi avx512_vnni
"""


def machine(root: Path, cpuinfo: str, siblings: list[str]) -> Path:
    """A root folder with this cpuinfo and, per hardware thread, the list of its core's threads."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("1:cpu,cpuacct:/\n0::/outer/inner\n")
    (root / "proc/cpuinfo").write_text(cpuinfo)
    for cpu, text in enumerate(siblings):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
    return root


def test_the_orins_processor_is_named_with_its_features(tmp_path: Path) -> None:
    root = machine(tmp_path, ORIN, [str(i) for i in range(12)])
    cpu = read_cpu(root, frozenset(range(12)))
    assert cpu.model == "Cortex-A78AE"
    assert (cpu.physical_cores, cpu.logical_cores, cpu.threads) == (12, 12, 12)
    assert cpu.features == ("neon", "dotprod", "fp16")


def test_two_threads_of_one_core_count_once(tmp_path: Path) -> None:
    root = machine(tmp_path, EPYC, ["0,2", "1,3", "0,2", "1,3"])
    cpu = read_cpu(root, frozenset(range(4)))
    assert cpu.model == "AMD EPYC 9354 32-Core Processor"
    assert (cpu.physical_cores, cpu.logical_cores) == (2, 4)
    assert cpu.features == (
        *("sse4.2", "avx", "avx2", "fma", "f16c", "bmi2"),
        *("avx512f", "avx512_vbmi", "avx512_vnni"),
    )


def test_only_cores_that_this_process_may_use_count(tmp_path: Path) -> None:
    root = machine(tmp_path, EPYC, ["0,2", "1,3", "0,2", "1,3"])
    assert read_cpu(root, frozenset({0, 2})).physical_cores == 1


def test_without_topology_every_thread_is_a_core(tmp_path: Path) -> None:
    root = machine(tmp_path, EPYC, [])
    assert read_cpu(root, frozenset({0, 1})).physical_cores == 2


def test_a_machine_that_shows_nothing_is_still_described(tmp_path: Path) -> None:
    cpu = read_cpu(tmp_path, frozenset({0}))
    assert cpu.model == "unknown" and cpu.physical_cores == 1 and cpu.features == ()


@pytest.mark.parametrize(
    ("files", "quota", "threads"),
    [
        ({"cpu.max": "max 100000"}, None, 4),
        ({"cpu.max": "150000 100000"}, 1.5, 2),
        ({"cpu.max": "50000 100000"}, 0.5, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, 4),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3.0, 3),
        ({"outer/cpu.max": "250000 100000", "outer/inner/cpu.max": "350000 100000"}, 2.5, 3),
        ({"cpu.max": "nonsense"}, None, 4),
    ],
)
def test_a_containers_time_limit_limits_the_threads(
    tmp_path: Path, files: dict[str, str], quota: float | None, threads: int
) -> None:
    root = machine(tmp_path, EPYC, ["0", "1", "2", "3"])
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    cpu = read_cpu(root, frozenset(range(4)))
    assert cpu.quota == quota and cpu.threads == threads


def test_an_unknown_arm_part_is_shown_by_its_number(tmp_path: Path) -> None:
    root = machine(tmp_path, ORIN.replace("0xd42", "0xfff"), ["0"])
    assert read_cpu(root, frozenset({0})).model == "Arm part 0xfff"


def test_this_machine_is_read() -> None:
    cpu = read_cpu()
    assert 1 <= cpu.physical_cores <= cpu.logical_cores
    assert cpu.logical_cores == len(os.sched_getaffinity(0))
    assert cpu.to_json()["threads"] == cpu.threads >= 1


def test_a_quota_above_the_cores_changes_nothing() -> None:
    assert Cpu("x", "y", 4, 8, 64.0, ()).threads == 4
