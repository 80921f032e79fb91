"""Profiles: their keys, where they lie, and which of them fit."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from profiles_support import ORIN, PC, TUNED

from orin_llm.errors import OrinError, UsageError
from orin_llm.profiles.key import differences
from orin_llm.profiles.match import find
from orin_llm.profiles.store import ProfileStore


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "own", tmp_path / "shipped")


# Keys


@pytest.mark.parametrize(
    ("field", "other", "told"),
    [
        ("module", "p3701-0004", "the module (p3701-0004, here p3701-0005)"),
        ("mode", "MODE_30W", "the power mode (MODE_30W, here MAXN)"),
        ("gpu_units", 4, "the GPU units that are on (4 TPCs, here 8 TPCs)"),
        ("emc_cap_mhz", 2133, "the memory's clock (2133 MHz, here 3199 MHz)"),
        ("gpu", None, "the GPU (none, here Orin)"),
        ("cores", 8, "the cores (8, here 12)"),
        ("fingerprint", "cd" * 32, "the model's weights"),
        ("version", "9", f"the version of orin-llm (9, here {ORIN.version})"),
    ],
)
def test_each_field_of_a_key_keeps_a_profile_from_fitting(
    field: str, other: Any, told: str
) -> None:
    found = differences(replace(ORIN, **{field: other}), ORIN)
    assert [d.text for d in found if d.field == field] == [told]


@pytest.mark.parametrize("there, here", [(None, 3199), (3199, None), (None, None)])
def test_a_clock_that_one_side_could_not_read_is_not_compared(
    there: int | None, here: int | None
) -> None:
    assert not differences(replace(ORIN, emc_cap_mhz=there), replace(ORIN, emc_cap_mhz=here))


def test_what_firmware_calls_a_board_and_users_a_model_is_not_compared() -> None:
    assert not differences(replace(ORIN, board="Jetson AGX Orin", model="other"), ORIN)


def test_a_machine_without_a_module_is_known_by_its_name() -> None:
    assert [d.field for d in differences(replace(PC, board="KVM"), PC)] == ["board"]


# Where they lie


def test_the_folder_is_beside_the_models_or_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ORIN_LLM_PROFILES", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert ProfileStore().root == tmp_path / "orin-llm" / "profiles"
    monkeypatch.setenv("ORIN_LLM_PROFILES", str(tmp_path / "other"))
    assert ProfileStore().root == tmp_path / "other"


def test_a_stored_profile_is_found_by_its_name_and_hides_one_that_ships(
    store: ProfileStore,
) -> None:
    ProfileStore(store.shipped, store.root).save("fast", replace(TUNED, goal="ttft"))
    assert store.read("fast").shipped
    saved = store.save("Fast", TUNED)
    assert store.read("fast") == saved
    assert store.all() == ([saved], [])
    store.remove("fast")
    with pytest.raises(UsageError, match="ships with orin-llm"):
        store.remove("fast")


def test_a_name_cannot_leave_the_folder(store: ProfileStore) -> None:
    for name in ("../x", "a/b", "", ".hidden"):
        with pytest.raises(UsageError, match="profile"):
            store.save(name, TUNED)


def test_a_damaged_file_is_listed_and_can_be_removed(store: ProfileStore) -> None:
    store.root.mkdir()
    store.path("bad").write_bytes(b"\xff")
    good, damaged = store.all()
    assert (good, [d.name for d in damaged]) == ([], ["bad"])
    store.remove("bad")
    assert store.names() == []


def test_what_is_no_file_is_listed_as_damaged_and_keeps_no_profile_from_use(
    store: ProfileStore,
) -> None:
    store.save("good", TUNED)
    os.mkfifo(store.path("pipe"))
    store.path("gone").symlink_to("nowhere")
    store.path("round").symlink_to(store.path("round").name)
    store.path("folder").mkdir()
    match = find(ORIN, store)
    assert match.exact is not None and match.exact.name == "good"
    assert [d.name for d in match.damaged] == ["folder", "gone", "pipe", "round"]
    assert all("is no file" in d.problem for d in match.damaged)
    for name in ("gone", "pipe", "round"):
        store.remove(name)
    assert store.names() == ["folder", "good"]


def test_a_profile_that_is_removed_while_all_are_read_is_left_out(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save("good", TUNED)
    monkeypatch.setattr(store, "names", lambda: ["gone", "good"])
    good, damaged = store.all()
    assert ([one.name for one in good], damaged) == (["good"], [])


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OrinError, match="ORIN_LLM_PROFILES names another folder"):
        ProfileStore(tmp_path / "file").save("x", TUNED)
    assert os.listdir(tmp_path) == ["file"]


# Which fit


def test_the_newest_of_the_profiles_that_fit_is_used(store: ProfileStore) -> None:
    store.save("a", replace(TUNED, created="2026-03-01T00:00:00Z", goal="ttft"))
    store.save("b", replace(TUNED, created="2026-02-01T00:00:00Z"))
    match = find(ORIN, store)
    assert match.exact is not None and match.exact.name == "a"
    assert [other.name for other in match.others] == ["b"]


def test_a_profile_of_the_user_goes_before_a_newer_one_that_ships(store: ProfileStore) -> None:
    ProfileStore(store.shipped, store.root).save("a", replace(TUNED, created="2027"))
    store.save("b", TUNED)
    match = find(ORIN, store)
    assert match.exact is not None and match.exact.name == "b"


def test_near_profiles_are_offered_with_what_differs_and_never_applied(
    store: ProfileStore,
) -> None:
    store.save("watts", replace(TUNED, key=replace(ORIN, mode="MODE_30W", gpu_units=4)))
    store.save("clock", replace(TUNED, key=replace(ORIN, emc_cap_mhz=2133)))
    store.save("other", replace(TUNED, key=replace(ORIN, fingerprint="0" * 64, mode="MODE_50W")))
    match = find(ORIN, store)
    assert match.exact is None
    assert [near.text for near in match.near] == [
        "clock differs in the memory's clock (2133 MHz, here 3199 MHz)",
        "watts differs in the power mode (MODE_30W, here MAXN), the GPU units that are on "
        "(4 TPCs, here 8 TPCs)",
    ]


def test_another_quantization_under_the_same_name_is_near(store: ProfileStore) -> None:
    store.save("old", replace(TUNED, key=replace(ORIN, fingerprint="0" * 64)))
    match = find(ORIN, store)
    assert match.exact is None
    assert [near.text for near in match.near] == ["old differs in the model's weights"]
