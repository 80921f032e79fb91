"""The CUDA toolkit of `scripts/arm64_check.sh cuda`, where apt and dpkg are stand-ins."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from arm64_check.toolkit import PACKAGES, RELEASE, ensure_toolkit
from orin_llm.errors import DeviceUnavailable

OWN = "usr/lib/nvidia-cuda-toolkit"
ARM = "usr/lib/aarch64-linux-gnu"
TREES = {
    "nvidia-cuda-toolkit:amd64": [
        *("usr/bin/ptxas", "usr/bin/nvcc", f"{OWN}/bin/nvcc", f"{OWN}/bin/crt/link.stub"),
        *(f"{OWN}/bin/cicc", f"{OWN}/libdevice/libdevice.10.bc", "usr/share/man/nvcc.1"),
    ],
    "nvidia-cuda-dev:arm64": [
        *("usr/include/cuda.h", f"{ARM}/libcudart_static.a", f"{ARM}/libcudadevrt.a"),
        *(f"{ARM}/{name}.so" for name in ("libcublas", "libcublasLt", "libcufft")),
        *(f"{ARM}/stubs/{name}.so" for name in ("libcuda", "libcublas", "libcufft")),
    ],
    "libcudart12:arm64": [f"{ARM}/libcudart.so.12"],
    "libcublas12:arm64": [f"{ARM}/libcublas.so.12"],
    "libcublaslt12:arm64": [f"{ARM}/libcublasLt.so.12"],
    "libthrust-dev": ["usr/include/thrust/sort.h"],
    "libcub-dev": ["usr/include/cub/cub.cuh"],
    "libcu++-dev": ["usr/include/cuda/atomic"],
}
APT = """#!/bin/sh
echo "$*" >>"$FAKE_FOLDER/apt.log"
case "$*" in
    *--print-uris*)
        for source in $FAKE_SOURCES; do echo "'https://$source/InRelease' x_InRelease 0"; done ;;
    *" update "*)
        while [ "$1" != -c ]; do shift; done
        cat "${2%/*}/sources/debian.sources" >"$FAKE_FOLDER/sources" ;;
    *) for package; do :; done; echo "$package" >"$(echo "$package" | tr -d :)_12.4.deb" ;;
esac
"""
DPKG = '#!/bin/sh\nexec tar --create --directory "$FAKE_FOLDER/trees/$(cat "$2")" .\n'


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Debian 12."""
    for name, script in (("apt-get", APT), ("dpkg-deb", DPKG)):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
    for package, files in TREES.items():
        for file in files:
            path = tmp_path / "trees" / package / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{file}\n")
    monkeypatch.setenv("FAKE_FOLDER", str(tmp_path))
    monkeypatch.setenv("FAKE_SOURCES", "mirror.test/debian/dists/bookworm")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    is_a(monkeypatch, "debian", "bookworm")
    return tmp_path


def is_a(monkeypatch: pytest.MonkeyPatch, name: str, release: str) -> None:
    told = {"ID": name, "VERSION_CODENAME": release, "PRETTY_NAME": f"{name} {release}"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: told)


def test_it_is_laid_out_as_nvidias_and_made_once(work: Path) -> None:
    made = ensure_toolkit(work / "cache")
    files = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    libraries = {"libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcublas.so"}
    libraries |= {"libcublasLt.so", "libcudart_static.a", "libcudadevrt.a"}
    libraries |= {"stubs/libcuda.so", "stubs/libcublas.so"}  # and none of the large ones
    assert files == {
        *("bin/nvcc", "bin/nvcc.profile", "bin/ptxas", "bin/crt/link.stub", "nvvm/bin/cicc"),
        *("nvvm/libdevice/libdevice.10.bc", "include/cuda.h", "include/thrust/sort.h"),
        *("include/cub/cub.cuh", "include/cuda/atomic"),
        *(f"lib64/{name}" for name in libraries),
    }
    assert (made / "bin/nvcc").read_text() == f"{OWN}/bin/nvcc\n"  # not the script in its place
    calls = (work / "apt.log").read_text()
    assert ensure_toolkit(work / "cache") == made
    assert (work / "apt.log").read_text() == calls
    assert not list((work / "cache").glob("*.partial"))


def test_packages_come_from_where_this_debian_has_its_own(work: Path) -> None:
    ensure_toolkit(work / "cache")
    sources = (work / "sources").read_text().splitlines()
    assert "URIs: https://mirror.test/debian" in sources
    assert f"Suites: {RELEASE}" in sources
    asked = [line.rpartition(" ")[2] for line in (work / "apt.log").read_text().splitlines()]
    assert asked[2:] == list(PACKAGES)


def test_another_system_is_told_to_be_debian(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, release in (("ubuntu", "noble"), ("raspbian", "bookworm")):
        is_a(monkeypatch, name, release)
        with pytest.raises(DeviceUnavailable, match=f"{name} {release}: .* step on Debian") as told:
            ensure_toolkit(work / "cache")
        assert told.value.exit_code == 4


@pytest.mark.parametrize(
    ("sources", "mirror"),
    [
        ("a.test/java/dists/bookworm m.test/debian/dists/stable", "https://m.test/debian"),
        ("m.test/debian-security/dists/bookworm-security m.test/d/dists/bookworm",
         "https://m.test/d"),
        ("m.test/debian-security/dists/bookworm-security", None),
        ("", None),
    ],
)  # fmt: skip
def test_debians_mirror_is_told_from_other_sources(
    work: Path, monkeypatch: pytest.MonkeyPatch, sources: str, mirror: str | None
) -> None:
    monkeypatch.setenv("FAKE_SOURCES", sources)
    if mirror is None:
        with pytest.raises(DeviceUnavailable, match="name no mirror of Debian"):
            ensure_toolkit(work / "cache")
    else:
        ensure_toolkit(work / "cache")
        assert f"URIs: {mirror}" in (work / "sources").read_text().splitlines()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda work: (work / "bin/apt-get").write_text(
                APT.replace("*) for", '*) echo "E: Unable to locate package" >&2; exit 100; for')
            ),
            r"Unable to locate package\nNeeded: .*Debian's trixie with its section non-free",
        ),
        (
            lambda work: (work / f"trees/libcublas12:arm64/{ARM}/libcublas.so.12").rename(
                work / "trees/libcublas12:arm64/usr/lib/libcublas.so.12"
            ),
            r"libcublas12arm64_12\.4\.deb has not what is looked for, \./usr/lib/aarch64",
        ),
    ],
)
def test_what_cannot_be_had_is_told_and_the_next_call_starts_anew(
    work: Path, spoil: Callable[[Path], object], said: str
) -> None:
    moved = work / f"trees/libcublas12:arm64/{ARM}/libcublas.so.12"
    spoil(work)
    with pytest.raises(DeviceUnavailable, match=said):
        ensure_toolkit(work / "cache")
    (work / "bin/apt-get").write_text(APT)
    moved.write_text("it is back")
    assert (ensure_toolkit(work / "cache") / "lib64/libcublas.so.12").exists()
