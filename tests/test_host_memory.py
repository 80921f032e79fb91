"""Memory read from copies of /proc/meminfo and of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from orin_llm.device.budget import choose_budget
from orin_llm.device.gpu import Gpu, Gpus
from orin_llm.host.cpu import read_cpu
from orin_llm.host.memory import Memory, read_memory

MEMINFO = """MemTotal:       64337132 kB
MemFree:         1000000 kB
MemAvailable:   50000000 kB
Cached:          9000000 kB
SwapTotal:       8000000 kB
SwapFree:        7000000 kB
NvMapMemUsed:    3000000 kB
HugePages_Total:       5
"""
KIB = 1024


def machine(root: Path, meminfo: str = MEMINFO, cgroup: str = "", **files: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(meminfo)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_available_is_what_the_kernel_says_not_what_is_free(tmp_path: Path) -> None:
    memory = read_memory(machine(tmp_path))
    assert memory == Memory(
        total=64337132 * KIB,
        available=50000000 * KIB,
        swap_total=8000000 * KIB,
        swap_free=7000000 * KIB,
        gpu_used=3000000 * KIB,
        limited=False,
    )
    assert memory.to_json()["available_bytes"] == 50000000 * KIB


def test_an_old_kernel_without_the_figure_counts_free_and_cached(tmp_path: Path) -> None:
    old = "\n".join(text for text in MEMINFO.splitlines() if "Available" not in text)
    assert read_memory(machine(tmp_path, old)).available == 10000000 * KIB


def test_a_machine_without_the_file_has_nothing_available(tmp_path: Path) -> None:
    memory = read_memory(tmp_path)
    assert memory.available == 0 and memory.gpu_used is None


STAT = "anon 5\ninactive_file 1000\ntotal_inactive_file 2000\n"


def test_a_containers_limit_counts_and_its_cache_can_go(tmp_path: Path) -> None:
    files = {"memory.max": "10000000", "memory.current": "4000000", "memory.stat": STAT}
    memory = read_memory(machine(tmp_path, cgroup="0::/\n", **files))
    assert memory.limited and memory.total == 10000000 and memory.available == 6001000


def test_the_limit_of_an_outer_group_counts_too(tmp_path: Path) -> None:
    files = {
        "a/memory.max": "10000000",
        "a/memory.current": "9000000",
        "a/b/memory.max": "max",
        "a/b/memory.current": "5",
    }
    memory = read_memory(machine(tmp_path, cgroup="0::/a/b\n", **files))
    assert memory.limited and memory.available == 1000000


def test_the_older_control_groups_count_as_well(tmp_path: Path) -> None:
    files = {
        "memory/box/memory.limit_in_bytes": "10000000",
        "memory/box/memory.usage_in_bytes": "4000000",
        "memory/box/memory.stat": STAT,
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "memory/memory.usage_in_bytes": "1",
    }
    cgroup = "9:cpu:/\n4:memory:/box\n0::/\n"
    memory = read_memory(machine(tmp_path, cgroup=cgroup, **files))
    assert memory.limited and memory.available == 6002000


@pytest.mark.parametrize("text", ["max", "", "garbage"])
def test_no_limit_is_no_limit(tmp_path: Path, text: str) -> None:
    files = {"memory.max": text, "memory.current": "5"}
    memory = read_memory(machine(tmp_path, cgroup="0::/\nbroken\n", **files))
    assert not memory.limited and memory.available == 50000000 * KIB


def test_an_overdrawn_container_has_nothing_not_less(tmp_path: Path) -> None:
    files = {"memory.max": "100", "memory.current": "200"}
    assert read_memory(machine(tmp_path, cgroup="0::/\n", **files)).available == 0


def test_this_machine_has_memory() -> None:
    memory = read_memory()
    assert 0 < memory.available <= memory.total


HOST = Memory(64 << 30, 48 << 30, 0, 0, None, limited=False)
OWN = Gpu("H200", "9.0", integrated=False, total_bytes=140 << 30, free_bytes=130 << 30)
SHARED = Gpu("Orin GPU", "8.7", integrated=True)


def test_a_gpu_with_its_own_memory_sets_the_budget_if_the_build_uses_it() -> None:
    assert choose_budget(True, Gpus((OWN,)), HOST).bytes == 130 << 30
    assert "H200" in choose_budget(True, Gpus((OWN,)), HOST).place
    assert choose_budget(False, Gpus((OWN,)), HOST).bytes == 48 << 30


def test_an_integrated_gpu_shares_the_machines_memory() -> None:
    assert choose_budget(True, Gpus((SHARED,)), HOST).bytes == 48 << 30


@pytest.mark.parametrize("odd", [b"\xff\xfe", "²".encode(), b"9" * 5000, b"\0", b""])
def test_what_no_kernel_writes_is_as_if_it_were_not_there(tmp_path: Path, odd: bytes) -> None:
    names = ("proc/meminfo", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current")
    root = machine(tmp_path, cgroup="0::/a\n", **{"memory.max": "5", "memory.current": "5"})
    for name in names:
        (root / name).write_bytes(b"MemTotal: " + odd if name == names[0] else odd)
    assert read_memory(root).total == 0
    (root / "proc/self/cgroup").write_bytes(b"0::/" + odd)
    (root / "sys/fs/cgroup/cpu.max").write_bytes(odd + b" 100000")
    assert read_cpu(root).quota is None
