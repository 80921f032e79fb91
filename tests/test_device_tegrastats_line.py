"""Lines of tegrastats: those of real boards give their numbers, and any bytes are survived."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orin_llm.device.modules import MODULES
from orin_llm.device.reading import Core, Reading
from orin_llm.device.tegrastats_line import parse_tegrastats

SAMPLES = Path(__file__).parent / "fakes" / "tegrastats" / "lines.txt"
JP5, JP5_2, JP6, ORIN_8GB = [
    line for line in SAMPLES.read_text().splitlines() if not line.startswith("#")
]
AGX = MODULES["p3701-0005"]
MIB = 1 << 20


def parsed(line: str | bytes) -> Reading:
    return parse_tegrastats(line, 7.0, AGX)


def clocks(reading: Reading) -> list[float | None]:
    return [core.mhz for core in reading.cores]


def loads(reading: Reading) -> list[float | None]:
    return [core.percent for core in reading.cores]


def test_jetpack_5_1_on_the_first_developer_kit() -> None:
    reading = parsed(JP5)
    assert reading.at_ms == 7.0 and reading.sources == ("tegrastats",)
    assert (reading.ram_used_bytes, reading.ram_total_bytes) == (1205 * MIB, 30623 * MIB)
    assert (reading.swap_used_bytes, reading.swap_total_bytes) == (0, 15311 * MIB)
    assert (reading.largest_free_blocks, reading.largest_free_block_bytes) == (6429, 4 * MIB)
    assert loads(reading) == [0, 0, 1, *[0] * 9]
    assert clocks(reading) == [729] * 5 + [730, 730] + [729] * 5
    assert reading.cpu_percent == pytest.approx(1 / 12)
    assert (reading.emc_percent, reading.emc_mhz, reading.bandwidth_gb_s) == (0, 204, 0)
    assert (reading.gpu_percent, reading.gpu_mhz) == (0, 114)
    assert reading.temperatures_c == {
        "cpu": 43.5, "tdiode": 32.5, "soc2": 40.062, "soc0": 40.5, "gpu": 38.156, "soc1": 39.125,
    }  # fmt: skip
    assert reading.rails_w == pytest.approx(
        {"VDD_GPU_SOC": 4.788, "VDD_CPU_CV": 0.798, "VIN_SYS_5V0": 3.842, "VDDQ_VDD2_1V8AO": 0.707}
    )
    assert reading.power_w == pytest.approx(4.788 + 0.798 + 3.842)
    assert reading.unknown == (
        "GR3D2_FREQ", "0%@114", "NVJPG1", "729", "VIC_FREQ", "729", "APE", "233",
    )  # fmt: skip


def test_jetpack_5_1_2_with_a_clock_for_each_cluster_of_the_gpu() -> None:
    reading = parsed(JP5_2)
    assert (reading.ram_used_bytes, reading.ram_total_bytes) == (4321 * MIB, 62801 * MIB)
    assert (reading.swap_used_bytes, reading.swap_total_bytes) == (19 * MIB, 31400 * MIB)
    assert (reading.largest_free_blocks, reading.largest_free_block_bytes) == (1759, 4 * MIB)
    assert loads(reading) == [0] * 12 and clocks(reading) == [729] * 12
    assert (reading.emc_percent, reading.emc_mhz, reading.bandwidth_gb_s) == (0, 2133, 0)
    assert (reading.gpu_percent, reading.gpu_mhz) == (0, 0)
    assert reading.temperatures_c == {
        "cpu": 44.562, "tboard": 32, "soc2": 40.093, "tdiode": 33, "soc0": 41.093, "tj": 44.343,
        "soc1": 41.25,
    }  # fmt: skip
    assert reading.rails_w == pytest.approx(
        {"VDD_GPU_SOC": 2.34, "VDD_CPU_CV": 0.39, "VIN_SYS_5V0": 4.025, "VDDQ_VDD2_1V8AO": 0.301}
    )
    assert reading.power_w == pytest.approx(6.755)
    assert reading.unknown == ("VIC_FREQ", "729", "APE", "174")


def test_jetpack_6_2_1_with_engines_that_are_off() -> None:
    reading = parsed(JP6)
    assert (reading.ram_used_bytes, reading.ram_total_bytes) == (18207 * MIB, 62841 * MIB)
    assert (reading.swap_used_bytes, reading.swap_total_bytes) == (86 * MIB, 31420 * MIB)
    assert (reading.largest_free_blocks, reading.largest_free_block_bytes) == (466, 4 * MIB)
    assert loads(reading) == [14, 5, 8, 14, 46, 47, 2, 10, 4, 5, 6, 10]
    assert clocks(reading) == [2188, 2112, 2035, 2201, *[1267] * 4, *[1036] * 4]
    assert reading.cpu_percent == pytest.approx(14.25)
    assert (reading.emc_percent, reading.emc_mhz) == (3, 2133)
    assert reading.bandwidth_gb_s == pytest.approx(0.03 * 2133 / 3199 * 204.8)
    assert (reading.gpu_percent, reading.gpu_mhz) == (0, 0)
    assert reading.temperatures_c == {
        "cpu": 52.562, "soc2": 48.437, "soc0": 49.093, "tj": 52.562, "soc1": 49.656,
    }  # fmt: skip
    assert reading.hottest_c == 52.562
    assert reading.power_w == pytest.approx(2.412 + 1.607 + 4.707)
    assert reading.unknown[:4] == ("NVENC", "79%@166", "NVDEC", "off")


def test_an_8_gb_orin_with_cores_off_no_time_and_no_clock_of_the_memory() -> None:
    reading = parse_tegrastats(ORIN_8GB, 0, MODULES["p3767-0003"])
    assert (reading.ram_used_bytes, reading.ram_total_bytes) == (3821 * MIB, 7337 * MIB)
    assert (reading.largest_free_blocks, reading.largest_free_block_bytes) == (21, MIB)
    assert reading.cores == (
        Core(True, 30, 1651), Core(True, 53, 1651), Core(True, 70, 1651), Core(True, 30, 1651),
        Core(False), Core(False),
    )  # fmt: skip
    assert reading.cpu_percent == pytest.approx((30 + 53 + 70 + 30) / 4)
    assert (reading.emc_percent, reading.emc_mhz, reading.bandwidth_gb_s) == (0, None, None)
    assert (reading.gpu_percent, reading.gpu_mhz) == (0, None)
    assert reading.temperatures_c == {"cpu": 45.5, "gpu": 44.9}
    assert reading.rails_w == {} and reading.power_w is None


def test_the_load_of_the_memory_is_of_its_current_clock_not_of_its_highest() -> None:
    slow, fast = parsed("EMC_FREQ 50%@2133"), parsed("EMC_FREQ 50%@3199")
    assert fast.bandwidth_gb_s == pytest.approx(102.4)
    assert slow.bandwidth_gb_s == pytest.approx(102.4 * 2133 / 3199)


def test_a_module_that_is_not_known_has_no_bandwidth() -> None:
    reading = parse_tegrastats("EMC_FREQ 50%@3199", 0)
    assert (reading.emc_percent, reading.emc_mhz, reading.bandwidth_gb_s) == (50, 3199, None)


@pytest.mark.parametrize(
    ("value", "percent", "mhz"),
    [
        ("12%@[1300,1300]", 12, 1300),
        ("12%@[612,0]", 12, 612),
        ("@[314,314,314]", None, 314),
        ("99%@1300", 99, 1300),
        ("99.5%", 99.5, None),
        ("@1300", None, 1300),
    ],
)
def test_the_ways_to_write_load_and_clock_of_the_gpu(
    value: str, percent: float | None, mhz: float | None
) -> None:
    reading = parsed(f"GR3D_FREQ {value}")
    assert (reading.gpu_percent, reading.gpu_mhz) == (percent, mhz)
    assert reading.unknown == ()


@pytest.mark.parametrize(
    "value", ["4788mW", "4788mW/4800mW", "4788mW/4800mW/9000mW", "4788", "4788/4800", "4788/1/2"]
)
def test_of_one_two_or_three_readings_of_a_rail_the_first_is_now(value: str) -> None:
    assert parsed(f"VDD_GPU_SOC {value}").rails_w == {"VDD_GPU_SOC": 4.788}


def test_the_clock_of_an_engine_is_no_rail() -> None:
    reading = parsed("APE 233 NVDEC 716 FOO 12mW")
    assert reading.rails_w == {"FOO": 0.012}
    assert reading.unknown == ("APE", "233", "NVDEC", "716")


def test_without_one_of_its_rails_there_is_no_total() -> None:
    assert parsed("VDD_GPU_SOC 4000mW VDD_CPU_CV 1000mW").power_w is None
    assert parsed("VIN_SYS_5V0 4000mW").power_w is None


def test_a_module_that_measures_its_input_has_that_as_total() -> None:
    assert parsed("VDD_IN 5000mW/4mW VDD_CPU_GPU_CV 1500mW VDD_SOC 900mW").power_w == 5


def test_small_blocks_are_told_in_kilobytes() -> None:
    reading = parsed("RAM 10/20MB (lfb 1x512kB)")
    assert (reading.largest_free_blocks, reading.largest_free_block_bytes) == (1, 512 << 10)


def test_a_line_of_no_words_has_nothing_and_nothing_is_zero() -> None:
    assert parsed("") == Reading(7.0, ("tegrastats",))


@pytest.mark.parametrize(
    "line", ["CPU [30%@1651,wh", "CPU [a%@3]", "CPU []", "RAM 3/MB", "EMC_FREQ x", "GR3D_FREQ %@"]
)
def test_a_value_that_is_not_understood_is_missing_and_kept(line: str) -> None:
    reading = parsed(line)
    assert (reading.cores, reading.ram_total_bytes, reading.gpu_percent) == ((), None, None)
    assert "".join(reading.unknown) == line.replace(" ", "")


@given(st.binary(max_size=20_000))
@example(b"[" * 20_000)
@example(b"(" * 20_000)
@example(b"VDD_IN " + b"9" * 8000 + b"mW")
def test_any_bytes_are_survived(line: bytes) -> None:
    reading = parsed(line)
    assert reading.at_ms == 7.0
    for value in (reading.gpu_percent, reading.emc_percent, reading.power_w, reading.cpu_percent):
        assert value is None or 0 <= value < 1e12


def test_what_stands_behind_the_longest_line_is_not_looked_at() -> None:
    assert parsed("x " * 4000 + "VDD_IN 5000mW").power_w == 5
    assert parsed("x " * 5000 + "VDD_IN 5000mW").power_w is None


def test_digits_of_other_scripts_are_not_numbers() -> None:
    assert parsed("GR3D_FREQ ٣% RAM ٣/٣MB VDD_IN ٣mW") == Reading(
        7.0, ("tegrastats",), unknown=("GR3D_FREQ", "٣%", "RAM", "٣/٣MB", "VDD_IN", "٣mW")
    )


@given(st.data())
def test_a_line_with_any_bytes_changed_is_survived(data: st.DataObject) -> None:
    line = bytearray(data.draw(st.sampled_from([JP5, JP5_2, JP6, ORIN_8GB])).encode())
    for _ in range(data.draw(st.integers(1, 20))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    parsed(bytes(line))


@given(st.integers(0, len(JP6)))
def test_a_line_that_is_cut_off_gives_what_stands_before(cut: int) -> None:
    reading, whole = parsed(JP6[:cut].rpartition(" ")[0]), parsed(JP6)
    assert reading.rails_w.items() <= whole.rails_w.items()
    assert reading.temperatures_c.items() <= whole.temperatures_c.items()
    assert reading.emc_mhz in (None, whole.emc_mhz)
    assert reading.ram_used_bytes in (None, whole.ram_used_bytes)


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=9)


@given(st.lists(WORDS.map(lambda word: f"x{word}"), max_size=8), st.randoms())
def test_unknown_words_are_kept_and_change_nothing_else(
    words: list[str], order: random.Random
) -> None:
    known = parsed(JP6)
    parts = groups(JP6)
    for word in words:
        parts.insert(order.randrange(len(parts) + 1), word)
    mixed = parsed(" ".join(parts))
    assert sorted(mixed.unknown) == sorted([*known.unknown, *words])
    assert without_unknown(mixed) == without_unknown(known)


@given(st.sampled_from([JP5, JP5_2, JP6, ORIN_8GB]), st.randoms())
def test_the_order_of_words_does_not_matter(line: str, order: random.Random) -> None:
    parts = groups(line)
    order.shuffle(parts)
    assert without_unknown(parsed(" ".join(parts))) == without_unknown(parsed(line))


def groups(line: str) -> list[str]:
    """A line cut into its values, each with the name before it and the brackets behind it."""
    parts: list[str] = []
    for word in line.replace("(lfb ", "(lfb_").replace("(cached ", "(cached_").split():
        follows = parts and parts[-1][0].isalpha() and "@" not in parts[-1] and " " not in parts[-1]
        if word.startswith("(") or (follows and not word[0].isalpha()) or word == "off":
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return [part.replace("(lfb_", "(lfb ").replace("(cached_", "(cached ") for part in parts]


def without_unknown(reading: Reading) -> dict[str, object]:
    return {**reading.to_json(), "unknown": None}
