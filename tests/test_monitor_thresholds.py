"""The file of thresholds: what it sets, what it may not, and which one is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orin_llm.errors import UsageError
from orin_llm.monitor.snapshot import Subject
from orin_llm.monitor.thresholds import (
    POWER_W,
    Occurrence,
    Threshold,
    Thresholds,
    default_thresholds,
    expected_power_w,
    find_file,
    read_thresholds,
)

DOCS = Path(__file__).parents[1] / "docs" / "monitor.md"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "monitor.toml"


def read(file: Path, text: str | bytes, power_w: float | None = POWER_W) -> Thresholds:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_thresholds(file, power_w)


def test_an_empty_file_is_all_defaults(file: Path) -> None:
    found = read(file, "")
    assert found == default_thresholds(POWER_W) == Thresholds()
    assert found.temperature_c == Threshold(85, 80)
    assert found.power_w == Threshold(25, 23.75, for_s=5)
    assert found.memory_used == Threshold(0.95, 0.90, for_s=5)
    assert found.kv_used == Threshold(0.85, 0.80, for_s=5)
    assert found.ttft_ms == Threshold(500, 450, window=10)
    assert found.tpot_ms == Threshold(60, 54, window=10)


def test_the_documented_file_is_the_defaults(file: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert read(file, example) == Thresholds()
    with_budget = re.sub(r"^(above|clear) = 2.*\n", "", example, flags=re.MULTILINE)
    assert read(file, with_budget, power_w=30) == default_thresholds(30)
    for rule, values in vars(Thresholds()).items():
        (table,) = re.findall(rf"\[{rule}\][^\n]*\n(.*?)(?:\n\[|\Z)", example, re.DOTALL)
        assert re.findall(r"^(\w+) =", table, re.MULTILINE) == [
            name for name, value in vars(values).items() if value is not None
        ]


@pytest.mark.parametrize(
    ("subject", "power_w"),
    [
        (Subject("Board", is_jetson=True, mode="MODE_30W", budget_w=30), 30),
        (Subject("Board", is_jetson=True, mode="MAXN"), 25),
        (Subject("Board in a container", is_jetson=True), 25),
        (Subject("Workstation"), None),
    ],
)
def test_what_a_machine_should_take_is_known_of_a_jetson_only(
    subject: Subject, power_w: float | None
) -> None:
    assert expected_power_w(subject) == power_w


def test_without_a_limit_of_the_power_there_is_no_alert_unless_the_file_sets_one(
    file: Path,
) -> None:
    assert not default_thresholds(None).power_w.enabled
    assert not read(file, "[power_w]\nfor_s = 2", power_w=None).power_w.enabled
    power = read(file, "[power_w]\nabove = 300", power_w=None).power_w
    assert power.enabled and power.above == 300
    assert not read(file, "[power_w]\nabove = 300\nenabled = false", power_w=None).power_w.enabled


def test_the_budget_of_the_power_mode_is_the_limit_of_the_power() -> None:
    power = default_thresholds(50).power_w
    assert power.above == 50 and power.clear == pytest.approx(47.5)


def test_what_the_file_sets_goes_before_the_budget(file: Path) -> None:
    power = read(file, "[power_w]\nabove = 20", power_w=50).power_w
    assert power.above == 20 and power.clear == pytest.approx(19)


def test_each_key_is_taken_and_the_others_stay(file: Path) -> None:
    found = read(
        file,
        "[temperature_c]\nabove = 70\nclear = 65.5\nfor_s = 2\n[ttft_ms]\nwindow = 3\n"
        "[kv_used]\nenabled = false\n[throttled]\nquiet_s = 1\n[over_current]\nenabled = false",
    )
    assert found.temperature_c == Threshold(70, 65.5, for_s=2)
    assert found.ttft_ms == Threshold(500, 450, window=3)
    assert found.kv_used == Threshold(0.85, 0.80, for_s=5, enabled=False)
    assert found.throttled == Occurrence(1) and found.over_current == Occurrence(60, enabled=False)
    assert found.tpot_ms == default_thresholds(None).tpot_ms


def test_the_highest_limits_that_can_be_are_taken(file: Path) -> None:
    found = read(file, "[kv_used]\nabove = 1\n[temperature_c]\nabove = 150\n[ttft_ms]\nabove = 1e5")
    assert (found.kv_used.above, found.temperature_c.above, found.ttft_ms.above) == (1, 150, 1e5)


def test_who_moves_one_of_two_limits_keeps_their_distance(file: Path) -> None:
    assert read(file, "[ttft_ms]\nabove = 1000").ttft_ms.clear == pytest.approx(900)
    assert read(file, "[ttft_ms]\nclear = 100").ttft_ms.above == 500


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[temprature_c]", "there is no [temprature_c]. Allowed: temperature_c, power_w, memory"),
        ("temperature_c = 85", "temperature_c is 85: expected a table"),
        ("[power_w]\nover = 3", "no power_w.over. Allowed: above, clear, for_s, enabled"),
        ("[power_w]\nwindow = 3", "no power_w.window. Allowed: above, clear, for_s, enabled"),
        ("[throttled]\nabove = 3", "no throttled.above. Allowed: quiet_s, enabled"),
        ("[power_w]\nabove = 'much'", "power_w.above is 'much': expected a number above 0"),
        ("[power_w]\nabove = true", "power_w.above is True: expected a number above 0"),
        ("[power_w]\nabove = nan", "power_w.above is nan: expected a number above 0"),
        ("[power_w]\nabove = inf", "power_w.above is inf: expected a number above 0"),
        (f"[power_w]\nabove = 1{'0' * 400}", "expected a number above 0"),
        ("[kv_used]\nabove = 85", "kv_used.above is 85: expected a part of 1, such as 0.85"),
        ("[memory_used]\nclear = 1.01", "memory_used.clear is 1.01: expected a part of 1"),
        ("[temperature_c]\nabove = 151", "above is 151: expected degrees Celsius, at most 150"),
        ("[power_w]\nclear = 0", "power_w.clear is 0: expected a number above 0"),
        ("[power_w]\nfor_s = -1", "power_w.for_s is -1: expected seconds, 0 … 86400"),
        ("[throttled]\nquiet_s = 1e9", "throttled.quiet_s is 1000000000.0: expected seconds"),
        ("[ttft_ms]\nwindow = 0", "ttft_ms.window is 0: expected a whole number of answers, 1 …"),
        ("[ttft_ms]\nwindow = 2.0", "ttft_ms.window is 2.0: expected a whole number of answers"),
        ("[ttft_ms]\nenabled = 1", "ttft_ms.enabled is 1: expected true or false"),
        ("[ttft_ms]\nclear = 500", "ttft_ms.clear is 500, ttft_ms.above 500: clear must be below"),
        ("[ttft_ms]\nabove = 3\nclear = 4", "ttft_ms.clear is 4, ttft_ms.above 3: clear must be"),
        ("[ttft_ms]\nabove = 3\nabove = 4", "is not TOML: "),
        ("\n\n[ttft_ms\n", "line 3"),
        (b"[ttft_ms]\xff", "is not UTF-8: byte 9"),
        ("a = " + "[" * 100_000, "is not TOML"),
        ("a = " + "9" * 5000, "is not TOML"),
        ("#" * (1 << 20) + "\n", "is too long"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_with_the_file_s_name(
    file: Path, text: str | bytes, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(file, text)
    assert said in str(caught.value) and str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none.toml cannot be read: No such file"):
        read_thresholds(tmp_path / "none.toml", None)
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_thresholds(tmp_path, None)


def test_at_once_is_the_same_without_waiting(file: Path) -> None:
    found = read(file, "[kv_used]\nabove = 0.5").at_once()
    assert found.kv_used.above == 0.5 and found.kv_used.for_s == 0 and found.power_w.for_s == 0
    assert found.ttft_ms == default_thresholds(None).ttft_ms


def test_the_user_s_file_goes_before_that_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, home, config = (tmp_path / name for name in ("root", "home", "config"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    assert find_file(root) is None
    machine = root / "etc/orin-llm/monitor.toml"
    mine = config / "orin-llm/monitor.toml"
    at_home = home / ".config/orin-llm/monitor.toml"
    for path in (machine, at_home, mine):
        path.parent.mkdir(parents=True)
    machine.touch()
    assert find_file(root) == machine
    at_home.touch()
    assert find_file(root) == machine  # XDG_CONFIG_HOME is another folder
    mine.touch()
    assert find_file(root) == mine
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", unusable)
        assert find_file(root) == at_home


def test_who_has_no_home_has_no_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54321)  # nobody in the list of users
    assert find_file(tmp_path) is None
