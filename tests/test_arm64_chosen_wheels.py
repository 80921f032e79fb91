"""pip chooses for the board, not for the machine that it runs on: with a few wheels of our own."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from arm64_check.chosen_wheels import JETPACKS, NoWheel, Wheel, choose
from arm64_check.resolve import Resolved, in_words, resolve_on, table
from arm64_check.steps import CheckFailed

JETPACK_6, JETPACK_7 = JETPACKS


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only place where pip looks."""
    for name in ("PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def put(
    shelf: Path, name: str, *needs: str, version: str = "1.0", tag: str = "py3-none-any"
) -> None:
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(shelf / f"{name}-{version}-{tag}.whl", "w") as wheel:
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
        wheel.writestr(f"{info}/METADATA", text)
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")


def named(wheels: list[Wheel]) -> list[str]:
    return [wheel.name for wheel in wheels]


def test_markers_are_those_of_the_board_at_every_depth(shelf: Path) -> None:
    markers = (
        "arm; platform_machine == 'aarch64'",
        "x86; platform_machine == 'x86_64'",
        "old; python_version < '3.11'",
        "patch; python_full_version == '3.12.3'",
    )
    put(shelf, "top", "middle", *(f"top_{marker}" for marker in markers))
    put(shelf, "middle", *(f"middle_{marker}" for marker in markers))
    for place in ("top", "middle"):
        for name in ("arm", "old", "patch"):
            put(shelf, f"{place}_{name}")
    on_6 = ["middle", "middle_arm", "middle_old", "top", "top_arm", "top_old"]
    on_7 = ["middle", "middle_arm", "middle_patch", "top", "top_arm", "top_patch"]
    assert named(choose(JETPACK_6, ["top", "nowhere; python_version < '3'"])) == on_6
    assert named(choose(JETPACK_7, ["top", "nowhere; platform_machine == 'x86_64'"])) == on_7


def test_a_wheel_that_needs_a_newer_glibc_is_none(shelf: Path) -> None:
    put(shelf, "fast", version="1.0", tag="cp310-cp310-manylinux_2_35_aarch64")
    put(shelf, "fast", version="2.0", tag="cp310-cp310-manylinux_2_36_aarch64")
    put(shelf, "fast", version="2.0", tag="cp312-cp312-manylinux_2_39_aarch64")
    put(shelf, "fast", version="3.0", tag="cp312-cp312-manylinux_2_17_x86_64")
    (on_6,) = choose(JETPACK_6, ["fast"])
    (on_7,) = choose(JETPACK_7, ["fast"])
    assert (on_6.version, on_6.glibc, on_7.version, on_7.glibc) == ("1.0", 35, "2.0", 39)
    assert on_7.tag == "cp312-cp312-manylinux_2_39_aarch64"


def test_the_oldest_of_several_tags_is_what_a_wheel_needs() -> None:
    tags = {
        "py3-none-any": 0,
        "cp310-cp310-manylinux_2_27_aarch64.manylinux_2_28_aarch64": 27,
        "cp310-cp310-manylinux2014_aarch64.manylinux_2_28_aarch64": 17,
    }
    assert {tag: Wheel("a", "1", f"a-1-{tag}.whl").glibc for tag in tags} == tags


def test_a_package_without_a_wheel_is_named(shelf: Path) -> None:
    (shelf / "only_source-1.0.tar.gz").write_bytes(b"")
    put(shelf, "top", "only_source")
    with pytest.raises(NoWheel, match=r"^only.source$"):
        choose(JETPACK_6, ["top"])


def test_an_index_that_cannot_be_reached_is_no_missing_wheel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(CheckFailed, match="pip says"):
        choose(JETPACK_6, ["top"])


def test_versions_that_do_not_go_together_are_no_missing_wheel(shelf: Path) -> None:
    put(shelf, "low", version="0.9")
    put(shelf, "low")
    put(shelf, "wants", "low>=1")
    with pytest.raises(CheckFailed, match="JetPack 6: wants, low<1: pip says"):
        choose(JETPACK_6, ["wants", "low<1"])


def test_what_is_needed_has_wheels_and_an_extra_need_not(shelf: Path) -> None:
    put(shelf, "here", tag="cp312-cp312-manylinux_2_28_aarch64")
    with pytest.raises(CheckFailed, match="here of package has no wheel: make it optional"):
        resolve_on(JETPACK_6, {"package": ["here"]}, {})
    found = resolve_on(JETPACK_7, {"package": ["here"]}, {"extra": ["absent"]})
    assert named(found.wheels["package"]) == ["here"] and found.without == {"extra": "absent"}
    assert in_words(JETPACK_7, found) == (
        "Python 3.12.3: 1 packages from wheels, which need glibc 2.28 (here) of 2.39;"
        " no wheel: [extra] absent"
    )


def test_the_table_has_a_row_for_each_package() -> None:
    old = Wheel("tomli", "2.0", "tomli-2.0-py3-none-any.whl")
    both = Resolved({"build": [old]}, {"stock": "big"})
    one = Resolved({"build": []}, {"stock": "big"})
    assert table({JETPACK_6: both, JETPACK_7: one}).splitlines() == [
        "| for | package | JetPack 6 | JetPack 7 |",
        "|---|---|---|---|",
        "| build | tomli | 2.0 `py3-none-any` | not needed |",
        "| stock | big | no wheel | no wheel |",
    ]
