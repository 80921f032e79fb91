"""The whole of doctor on boards whose every part is set: kernel, tools, and NVIDIA's driver."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.boards import JETSONS, Machine, jetson
from fakes.cuda.driver import Driver, compile_driver
from models_support import TINY
from typer.testing import CliRunner

from orin_llm.cli.main import app
from orin_llm.device.build import Build

BUILD = Build(
    version="0.1.0", native=True, cpu_flags=("neon",), cuda=True, cuda_architectures="87-real",
    cuda_version="12.6", why="nvcc 12.6",
)  # fmt: skip
# As cuobjdump prints it.
LISTED = "ELF file    1: tmpxft_000012ab_00000000-0.sm_87.cubin"


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(library_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder))
    made = Driver(monkeypatch, tmp_path / "calls.log")
    made.set(LOG=made.log, INTEGRATED=1, GB_S=150)
    return made


EVERY_BOARD = pytest.mark.parametrize(
    "board", ["64GB-JP6", "64GB-JP5", "32GB-JP6", "32GB-JP5"], indirect=True
)


@pytest.fixture
def board(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    """A board that is set up, with a build for it."""
    shipped = JETSONS[getattr(request, "param", "64GB-JP6")]
    made = jetson(tmp_path, replace(shipped, mode="MAXN"))
    made.write("proc/cpuinfo", "processor: 0\nFeatures: fp asimd\nCPU implementer: 0x41\n")
    made.write("proc/swaps", "Filename Type Size Used Priority\n/swapfile file 16000000 0 -2\n")
    made.write("proc/1/comm", "systemd\n")
    made.write("var/lib/nvfancontrol/status", "FAN_PROFILE cool\n")
    highest = 1300500000 if shipped.cores == 12 else 930750000
    (clock,) = [path.parent for path in made.root.rglob("min_freq")]
    for name in ("min_freq", "max_freq"):
        (clock / name).write_text(f"{highest}\n")
    for path in made.root.rglob("oc*_event_cnt"):
        path.write_text("0\n")
    made.tool("systemctl", "echo inactive; exit 3")
    made.tool("cuobjdump", f"echo '{LISTED}'")
    monkeypatch.setenv("PATH", made.path)
    monkeypatch.setenv("ORIN_LLM_MODELS", str(tmp_path / "store"))
    monkeypatch.delenv("GGML_CUDA_ENABLE_UNIFIED_MEMORY", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("orin_llm.doctor.look.build_info", lambda: BUILD)
    return made


def diagnose(board: Machine, tmp_path: Path) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and what is not ok, by its check."""
    model = tmp_path / "tiny.gguf"
    model.write_bytes(TINY)
    given = ["doctor", str(model), "-c", "64", "--json", "--root", str(board.root)]
    done = CliRunner().invoke(app, given)
    checks = json.loads(done.stdout)["checks"]
    assert len(checks) > 20
    return done.exit_code, {entry["check"]: entry for entry in checks if entry["level"] != "ok"}


def out_of_support(board: Machine) -> list[str]:
    """What is said of JetPack 5, whatever is set."""
    release = (board.root / "etc/nv_tegra_release").read_text()
    return ["JetPack"] if release.startswith("# R35") else []


@EVERY_BOARD
def test_a_board_that_is_set_up_has_nothing_to_complain_of(
    board: Machine, driver: Driver, tmp_path: Path
) -> None:
    code, found = diagnose(board, tmp_path)
    assert (code, list(found)) == (0, out_of_support(board))


def test_a_driver_that_cannot_map_memory_hurts(
    board: Machine, driver: Driver, tmp_path: Path
) -> None:
    driver.set(FAIL="cuMemAddressReserve:2")
    code, found = diagnose(board, tmp_path)
    assert code == 1 and list(found) == ["CUDA allocator", "KV cache"]
    assert all("cuMemAddressReserve" in finding["found"] for finding in found.values())


def test_memory_in_pieces_hurts(board: Machine, driver: Driver, tmp_path: Path) -> None:
    driver.set(LIMIT=1 << 30)
    code, found = diagnose(board, tmp_path)
    assert code == 1 and list(found) == ["largest block"]
    assert "at most 1.07 GB" in found["largest block"]["found"]


def test_a_driver_that_has_no_virtual_memory_is_only_noted(
    board: Machine, driver: Driver, tmp_path: Path
) -> None:
    driver.set(VMM=0)
    code, found = diagnose(board, tmp_path)
    assert code == 0 and list(found) == ["CUDA allocator", "KV cache"]
    assert {finding["level"] for finding in found.values()} == {"note"}


def test_a_driver_that_dies_is_told(board: Machine, driver: Driver, tmp_path: Path) -> None:
    driver.set(ABORT="cuInit")
    code, found = diagnose(board, tmp_path)
    assert code == 1 and list(found) == ["CUDA driver"]
    assert "SIGABRT" in found["CUDA driver"]["found"]


def test_a_module_without_code_for_the_gpu_hurts(
    board: Machine, driver: Driver, tmp_path: Path
) -> None:
    board.tool("cuobjdump", f"echo '{LISTED.replace('87', '90')}'")
    code, found = diagnose(board, tmp_path)
    assert code == 1 and list(found) == ["binary code"]


@EVERY_BOARD
def test_the_cap_that_a_board_boots_with_is_seen_in_both_its_places(
    board: Machine, driver: Driver, tmp_path: Path
) -> None:
    for name in ("rate", "max_rate"):
        board.write(f"sys/kernel/debug/bpmp/debug/clk/emc/{name}", "2133000000\n")
    lines = board.bin / "tegrastats.lines"
    lines.write_text(lines.read_text().replace("@3199", "@2133"))
    code, found = diagnose(board, tmp_path)
    assert code == 1
    assert sorted(found) == sorted([*out_of_support(board), "firmware's cap", "memory clock"])
    assert "136.6 of 204.8 GB/s under load" in found["memory clock"]["found"]
