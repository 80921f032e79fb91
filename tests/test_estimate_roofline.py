"""Times of steps, boards and their modes, and the efficiency that published results imply."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_headers import header, llama_3_8b

from orin_llm.device.modules import AGX_ORIN_32GB, AGX_ORIN_64GB, SHIPPED_MODES, find_module
from orin_llm.errors import DeviceUnavailable, UsageError
from orin_llm.estimate.estimate import Estimate, default_depths, estimate
from orin_llm.estimate.published import PUBLISHED, implied
from orin_llm.estimate.roofline import IDEAL, Factors, Rates, step_time, total_time
from orin_llm.estimate.target import chosen_modes, module_named, shipped_target, this_board
from orin_llm.estimate.work import Work

MAXN = Rates("MAXN", 16, 1300.5, 3199, 204.8)


def test_the_modules_come_to_the_published_rates() -> None:
    assert AGX_ORIN_64GB.peak_bandwidth_gb_s == AGX_ORIN_32GB.peak_bandwidth_gb_s == 204.8
    assert AGX_ORIN_64GB.bandwidth_gb_s(2133) == pytest.approx(136.6, abs=0.1)
    # 170 sparse int8 TOPS are four times the dense f16 products.
    assert 4 * (AGX_ORIN_64GB.f16_tflops or 0) == pytest.approx(170, abs=0.5)
    assert AGX_ORIN_32GB.sm_count == 14 and AGX_ORIN_32GB.cpu_cores == 8


def test_a_module_is_found_by_what_the_device_tree_calls_it() -> None:
    names = ("nvidia,p3737-0000+p3701-0005", "nvidia,p3701-0005", "nvidia,tegra234")
    assert find_module(names) is AGX_ORIN_64GB
    assert find_module(["lanner,eai-i233", "nvidia,p3701-0004"]) is AGX_ORIN_32GB
    assert find_module(["nvidia,p3701-9999", "nvidia,tegra234"]) is None
    assert find_module(["xnvidia,p3701-0005x"]) is None
    assert find_module([]) is None


def test_no_mode_leaves_more_than_the_module_has() -> None:
    for module in (AGX_ORIN_64GB, AGX_ORIN_32GB):
        modes = SHIPPED_MODES[module.part]
        assert [mode.id for mode in modes] == [0, 1, 2, 3]
        for mode in modes:
            assert mode.sm_count <= module.sm_count
            assert mode.gpu_max_mhz <= (module.gpu_max_mhz or 0)
    names = {part: modes[3].name for part, modes in SHIPPED_MODES.items()}
    assert names == {"p3701-0005": "MODE_50W", "p3701-0004": "MODE_40W"}


def test_decoding_an_8b_takes_at_least_24_ms() -> None:
    step = Work(1, 15 * 10**9, 46 * 2**30 // 10)  # 4.6 GiB at 204.8 GB/s
    time = step_time(step, MAXN, IDEAL)
    assert time.ms == pytest.approx(24.1, abs=0.05)
    assert time.limit == "memory"


def test_the_slowest_part_is_the_time() -> None:
    rates = Rates("x", 10, 1000, 3199, 100.0)  # 100 GB/s, 10 G clocks/s, 20.48 TFLOP/s
    factors = Factors(bandwidth=0.5, compute=0.25, bytes_per_clock=4)
    one = Work(1, 1, 10**9)
    assert step_time(one, rates, factors).ms == pytest.approx(25.0)  # 40 GB/s beside 50 GB/s
    assert step_time(one, rates, factors).limit == "multiprocessors"
    several = Work(2, 1, 10**9)
    assert step_time(several, rates, factors).ms == pytest.approx(20.0)
    assert step_time(several, rates, factors).limit == "memory"
    many = Work(512, 5_120_000_000_000, 10**9)
    assert step_time(many, rates, factors).ms == pytest.approx(1000.0)
    assert step_time(many, rates, factors).limit == "arithmetic"
    assert total_time([several, many], rates, factors).ms == pytest.approx(1020.0)
    assert total_time([several, many], rates, factors).limit == "arithmetic"


@pytest.mark.parametrize(
    "wrong",
    [{"bandwidth": 0}, {"bandwidth": 1.1}, {"compute": -1}, {"bytes_per_clock": float("nan")}],
)
def test_an_efficiency_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="expected more than 0"):
        Factors(**wrong)


def test_modes_are_chosen_by_name() -> None:
    modes = shipped_target(AGX_ORIN_64GB).modes
    assert [m.mode for m in chosen_modes(modes, None)] == [
        "MAXN", "MODE_15W", "MODE_30W", "MODE_50W",
    ]  # fmt: skip
    assert [m.mode for m in chosen_modes(modes, "30w, MAXN,30W")] == ["MODE_30W", "MAXN"]
    with pytest.raises(UsageError, match=r"no power mode '40W'.*MODE_50W"):
        chosen_modes(modes, "40W")
    assert module_named("AGX-Orin-32GB") is AGX_ORIN_32GB
    with pytest.raises(UsageError, match="agx-orin-64gb, agx-orin-32gb"):
        module_named("nano")


CONF = """
< POWER_MODEL ID=0 NAME=MAXN >
GPU MAX_FREQ -1
TPC_POWER_GATING TPC_PG_MASK 0
EMC MAX_FREQ 0
< POWER_MODEL ID=5 NAME=MODE_MINE >
TPC_POWER_GATING TPC_PG_MASK 240
GPU MAX_FREQ 612000000
EMC MAX_FREQ 2133000000
"""


def board(root: Path, part: str, conf: str | None = CONF) -> Path:
    """The files of a Jetson with 40 GB available."""
    (root / "proc/device-tree").mkdir(parents=True)
    names = f"nvidia,p3737-0000+{part}\0nvidia,{part}\0nvidia,tegra234\0"
    (root / "proc/device-tree/compatible").write_text(names)
    (root / "proc/meminfo").write_text("MemTotal: 60000000 kB\nMemAvailable: 40000000 kB\n")
    (root / "etc").mkdir()
    if conf is not None:
        (root / "etc/nvpmodel.conf").write_text(conf)
    return root


def test_a_board_has_its_own_modes_and_memory(tmp_path: Path) -> None:
    found = this_board(board(tmp_path, "p3701-0004"))
    assert found.module is AGX_ORIN_32GB
    assert found.memory.bytes == 40_000_000 * 1024
    maxn, mine = found.modes
    # A mask of 0 leaves 8 TPCs; this module has 7.
    assert (maxn.sm_count, maxn.gpu_mhz, maxn.emc_mhz) == (14, 930.75, 3199)
    assert (mine.mode, mine.sm_count, mine.gpu_mhz) == ("MODE_MINE", 8, 612)
    assert mine.bandwidth_gb_s == pytest.approx(136.6, abs=0.1)


def test_firmware_that_caps_the_memory_caps_it_in_every_mode(tmp_path: Path) -> None:
    root = board(tmp_path, "p3701-0005")
    clock = root / "sys/kernel/debug/bpmp/debug/clk/emc"
    clock.mkdir(parents=True)
    (clock / "max_rate").write_text("2133000000\n")
    assert [rates.emc_mhz for rates in this_board(root).modes] == [2133, 2133]


def test_a_board_without_its_modes_says_so(tmp_path: Path) -> None:
    with pytest.raises(DeviceUnavailable, match=r"nvpmodel\.conf"):
        this_board(board(tmp_path, "p3701-0005", conf=None))


def test_another_machine_is_taken_for_an_agx_orin_64gb(tmp_path: Path) -> None:
    assert this_board(tmp_path) == shipped_target(AGX_ORIN_64GB)


def estimated(depths: tuple[int, ...] = (512, 4096), ctx: int = 0) -> Estimate:
    target = shipped_target(AGX_ORIN_64GB)
    path, factors = Path("8b.gguf"), Factors()
    return estimate(llama_3_8b(), path, target, depths=depths, factors=factors, ctx=ctx)


def test_every_mode_and_depth_is_worked_out() -> None:
    found = estimated()
    modes = ("MAXN", "MODE_15W", "MODE_30W", "MODE_50W")
    assert [(p.rates.mode, p.depth) for p in found.points] == [
        (mode, depth) for mode in modes for depth in (512, 4096)
    ]
    assert found.decode[512].bytes == 4_617_398_784 + 513 * 131_072  # the token behind the prompt
    for point in found.points:
        assert point.ttft.ms > point.ttft_floor_ms and point.tpot.ms > point.tpot_floor_ms
    by_mode = {p.rates.mode: p for p in found.points if p.depth == 4096}
    # Half of the multiprocessors at half of the clock, with all of the memory.
    assert by_mode["MODE_30W"].tpot.limit == "multiprocessors"
    assert by_mode["MAXN"].tpot.limit == "memory"
    assert by_mode["MODE_30W"].tpot_floor_ms == by_mode["MAXN"].tpot_floor_ms
    assert by_mode["MODE_30W"].ttft.ms / by_mode["MAXN"].ttft.ms == pytest.approx(
        16 * 1300.5 / (8 * 612)
    )


def test_an_8b_decodes_as_fast_as_was_published_for_llama_cpp() -> None:
    # Llama 3 8B beside the published 25 tokens/s of Qwen3 8B, which is a little larger.
    (point,) = (p for p in estimated((64,)).points if p.rates.mode == "MAXN")
    assert 1e3 / point.tpot.ms == pytest.approx(25, rel=0.03)


def test_the_memory_is_that_of_models_show() -> None:
    found = estimated(ctx=4096)
    fit = found.fit
    assert fit.budget.bytes == 62801 * 2**20
    left = int(fit.budget.bytes * 0.9) - 4_912_898_304 - fit.activations
    assert fit.sequences == left // (4096 * 131_072 + 128256 * 4) == 100


def test_a_depth_must_leave_room_for_an_answer() -> None:
    with pytest.raises(UsageError, match="context of 131072"):
        estimated((131072,))
    assert default_depths(llama_3_8b()) == (512, 2048, 8192)
    assert default_depths(header("x", context_length=2048)) == (512,)
    assert default_depths(header("x", context_length=300)) == (150,)
    assert default_depths(header("x")) == (512, 2048, 8192)


def test_json_is_marked_as_an_estimate() -> None:
    found = estimated().to_json()
    assert found["estimate"] is True and found["measured"] is False
    assert found["factors"] == {"bandwidth": 0.57, "compute": 0.2, "bytes_per_clock": 7.3}
    assert found["points"][0]["decode_tokens_per_s"] == pytest.approx(
        1e3 / found["points"][0]["tpot_ms"]
    )
    assert found["modes"][0]["flops_per_s"] == pytest.approx(42.6e12, rel=0.001)


def test_published_results_imply_known_efficiencies() -> None:
    by_name = {
        (result.program, result.prompt_tokens, result.mode): implied(result) for result in PUBLISHED
    }
    tensorrt = by_name["TensorRT-LLM INT4", 128, "MAXN"]
    assert tensorrt.bandwidth == pytest.approx(0.80, abs=0.005)
    # 128 tokens in 91 ms: 2 × 6.98 G weights × 128 / 0.091 s / 42.6 T.
    assert tensorrt.compute == pytest.approx(0.46, abs=0.005)
    assert by_name["llama.cpp Q4_K_M", 0, "MAXN"].bandwidth == pytest.approx(0.57, abs=0.005)
    slow = by_name["MLC", 0, "MODE_30W"]
    assert slow.bandwidth == pytest.approx(0.31, abs=0.005)
    assert slow.bytes_per_clock == pytest.approx(13.0, abs=0.05)
    # The one that the board cannot have done with f16 products.
    beyond = [r for r in map(implied, PUBLISHED) if r.compute is not None and r.compute > 1]
    assert [(r.published.program, r.published.prompt_tokens) for r in beyond] == [
        ("TensorRT-LLM GPTQ", 1024)
    ]


def test_the_table_in_the_documentation_is_what_the_check_computes() -> None:
    text = (Path(__file__).parent.parent / "docs/estimate.md").read_text()
    rows = re.findall(r"^\| (.*?) \|$", text, re.MULTILINE)
    documented = [[cell.strip() for cell in row.split("|")] for row in rows]
    for result in map(implied, PUBLISHED):
        published = result.published
        expected = [
            f"{published.program}, {published.shape.title}",
            published.mode,
            f"{published.decode_tokens_per_s:g}",
            f"{result.bandwidth:.0%}",
            f"{result.bytes_per_clock:.1f}",
            "" if result.compute is None else f"{result.compute:.0%} ({published.prompt_tokens})",
        ]
        assert expected in documented
