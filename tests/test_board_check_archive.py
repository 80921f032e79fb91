"""What of a machine is taken for a secret, and what of its files enters the archive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from board_check_support import HOST, MAC, MACHINE_ID, SERIAL, USER, texts_of

from board_check.archive import listing, write_archive
from board_check.identity import read_identity
from board_check.redact import Redactor
from board_check.secret import Secret
from orin_llm.errors import OrinError

CHECKOUT = Path("/srv/q/checkout")
UUID = "8f0e6bb5-8f7c-9f2a-d7a7-0123456789ab"
FILES = {
    "proc/device-tree/serial-number": f"{SERIAL}\0",
    "sys/class/dmi/id/board_serial": "BRD-77-X1\n",
    "sys/class/nvme/nvme0/serial": "S4EWNX0M123456      \n",
    "sys/block/mmcblk0/device/cid": "13014e53304a39384b10a1b2c3d4e5f6\n",
    "sys/devices/platform/efuse/ecid": "0x80012344705DE42A1C0000000A018140\n",
    "sys/bus/i2c/devices/0-0050/eeprom": "699-13701-0005-500 L.0\0\1\x021421222012345\0\0",
    "sys/class/net/wlan0/address": f"{MAC}\n",
    "proc/cmdline": "console=ttyTCU0 androidboot.serialno=ANDROID1234 root=/dev/nvme0n1p1\n",
    "proc/net/fib_trie": "|-- 127.0.0.1\n /32 host LOCAL\n |-- 192.0.2.77\n /32 host LOCAL\n",
    f"dev/disk/by-uuid/{UUID}": "",
    "etc/hostname": f"{HOST}.lan.zoraland.example\n",
    "proc/net/arp": "IP address  HW type Flags HW address\n192.0.2.1 0x1 0x2 02:1a:2b:3c:4d:5e *\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 oldname9\n192.0.2.9 neighbour9 # his\n",
    "etc/resolv.conf": "nameserver 192.0.2.2\nsearch zoraland.example\n",
    "etc/machine-id": f"{MACHINE_ID}\n",
    "etc/passwd": f"root:x:0:0:root:/root:/bin/sh\n"
    f"{USER}:x:1000:1000:Zora Ñandú,,,:/data/h/{USER}:/bin/sh\n",
    "etc/NetworkManager/system-connections/x.nmconnection": "[wifi]\nssid=Zora's Wi-Fi\n",
}  # fmt: skip
VALUES = {
    ("serial", SERIAL), ("serial", "BRD-77-X1"), ("serial", "S4EWNX0M123456"),
    ("serial", "13014e53304a39384b10a1b2c3d4e5f6"), ("serial", "1421222012345"),
    ("serial", "ANDROID1234"), ("chip", "0x80012344705DE42A1C0000000A018140"), ("mac", MAC),
    ("ip", "192.0.2.77"), ("ip", "192.0.2.1"), ("mac", "02:1a:2b:3c:4d:5e"),
    ("ip", "192.0.2.9"), ("host", "neighbour9"), ("ip", "192.0.2.2"),
    ("uuid", UUID), ("host", f"{HOST}.lan.zoraland.example"), ("host", HOST),
    ("host", "oldname9"), ("host", "zoraland.example"), ("id", MACHINE_ID), ("user", USER),
    ("name", "Zora Ñandú"), ("name", "Zora"), ("path", f"/data/h/{USER}"), ("ssid", "Zora's Wi-Fi"),
    ("user", f"{USER}@{HOST}"), ("token", "very-secret-1"), ("path", "/srv/q/checkout"),
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "root"


def test_every_place_of_a_machine_that_has_a_secret_is_read(root: Path) -> None:
    environ = {"USER": USER, "HF_TOKEN": "very-secret-1", "PATH": "/bin", "MAX_TOKENS": "3199"}
    secrets = read_identity(root, CHECKOUT, {CHECKOUT: "<checkout>"}, environ)
    found = {(secret.kind, secret.value) for secret in secrets}
    assert found >= VALUES
    assert not found & {("user", "root"), ("path", "/root"), ("ip", "127.0.0.1"), ("token", "3199")}


def test_nothing_that_was_read_is_left_in_any_text(root: Path) -> None:
    redactor = Redactor(read_identity(root, CHECKOUT, {CHECKOUT: "<checkout>"}, {}), frozenset())
    for text in FILES.values():
        clean = redactor.redact(f"{text}\n{json.dumps(text)}").lower()
        for kind, value in VALUES:
            assert value.lower() not in clean, (kind, value, clean)


def redactor() -> Redactor:
    return Redactor([Secret("serial", SERIAL), Secret("user", USER)], frozenset())


def archived(folder: Path, **files: bytes) -> dict[str, str]:
    places = folder / "places"
    places.mkdir()
    for name, data in files.items():
        (places / name.replace("_", ".")).write_bytes(data)
    sources = {"logs": sorted(places.iterdir())}
    archive = write_archive(folder, {"SUMMARY.txt": f"of {USER}\n"}, sources, redactor())
    assert any(line.startswith(f"archive: {archive.path} (") for line in listing(archive))
    return texts_of(archive.path)


def test_a_file_in_which_a_value_is_left_is_left_out(tmp_path: Path) -> None:
    spaced = " ----- ".join(SERIAL)
    texts = archived(tmp_path, a_txt=f"x {spaced} y".encode(), b_txt=b"fine")
    assert texts["logs/a.txt"].startswith("(left out: serial in it")
    assert texts["logs/b.txt"] == "fine"
    assert texts["SUMMARY.txt"] == "of <user-1>\n" and "names of users" in texts["README.txt"]


def test_an_archive_that_has_a_value_all_the_same_is_refused_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived(tmp_path, a_txt=b"x")
    before = (tmp_path / "board-check.tar.gz").read_bytes()
    monkeypatch.setattr("board_check.archive._clean", lambda text, _: text)  # as if it were broken
    with pytest.raises(OrinError, match=r"serial, user of this machine would be in the archive"):
        write_archive(tmp_path, {"a": f"{SERIAL} {USER}"}, {}, redactor())
    assert (tmp_path / "board-check.tar.gz").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"board-check.tar.gz", "places"}


def test_a_long_text_is_cut_at_lines_and_long_json_is_left_out(tmp_path: Path) -> None:
    lines = b"".join(b"%06d zora\n" % n for n in range(100_000))
    texts = archived(
        tmp_path, long_txt=lines, long_json=b"[" + b"1, " * (2 << 20) + b"1]", raw_bin=b"\0zora"
    )
    cut = texts["logs/long.txt"].splitlines()
    assert cut[0] == "000000 <user-1>" and cut[-1] == "099999 <user-1>"
    assert "(what was between is left out)" in cut and {len(line) for line in cut} == {15, 30}
    assert texts["logs/long.json"].startswith("(left out: ")
    assert texts["logs/raw.bin"] == "(left out: 5 bytes that are no text)\n"


def test_names_of_files_are_without_names_too(tmp_path: Path) -> None:
    assert "logs/<user-1>.txt" in archived(tmp_path, zora_txt=b"x")


def test_an_archive_that_cannot_be_written_leaves_the_one_that_was_there(tmp_path: Path) -> None:
    archived(tmp_path, a_txt=b"x")
    before = (tmp_path / "board-check.tar.gz").read_bytes()

    class Broken(Redactor):
        def redact(self, text: str) -> str:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_archive(tmp_path, {"a": "b"}, {}, Broken([], frozenset()))
    assert (tmp_path / "board-check.tar.gz").read_bytes() == before
