"""How values are written in outputs of a Jetson's tools, and what is only written like one."""

from __future__ import annotations

from pathlib import Path

import pytest

from board_check.identity import read_identity
from board_check.redact import Redactor
from board_check.secret import Secret
from board_check.vocabulary import read_vocabulary

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = read_vocabulary(ROOT)
KNOWN = (
    Secret("serial", "S4EWNX0R123456"),
    Secret("serial", "naa.5002538e40b1a2b3"),
    Secret("chip", "0x80012344705DE42A1C0000000A018140"),
    Secret("mac", "48:b0:2d:7a:19:5f"),
    Secret("user", "zoralovel"),
    Secret("ssid", "Zoras Käfer Netz"),
)


def redacted(text: str, *secrets: Secret) -> str:
    return Redactor(secrets, VOCABULARY).redact(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[1;32mzoralovel\x1b[0m", "\x1b[1;32m<user-1>\x1b[0m"),
        ("\x1b[01;31m\x1b[Kzoralovel\x1b[m", "\x1b[01;31m\x1b[K<user-1>\x1b[m"),
        ("\x1b[38;5;12mzoralovel", "\x1b[38;5;12m<user-1>"),
        ("S4EWNX0R12\x1b[01;31m3456", "<serial-1>"),
        ("S4EW-NX0R-1234-56 S4EWNX 0R123456", "<serial-1> <serial-1>"),
        ("5f:19:7a:2d:b0:48, {0x48, 0xb0, 0x2d, 0x7a, 0x19, 0x5f}", "<mac-1>, {0x<mac-1>}"),
        ("4081010A 0000001C2AE45D7044230180", "<chip-1>"),
        ("48B0.2D7A.195F, 48 b0 2d 7a 19 5f", "<mac-1>, <mac-1>"),
        ("80012344705de42a1c0000000a018140", "<chip-1>"),
        ("sda 0x5002538e40b1a2b3", "sda 0x<serial-1>"),
        (r"Zoras\x20K\xc3\xa4fer\x20Netz", "<ssid-1>"),
        (r"Zoras K\303\244fer Netz", "<ssid-1>"),
        (r"Zoras\ Käfer\ Netz Zoras_Käfer_Netz", "<ssid-1> <ssid-1>"),
        ("Zoras+K%C3%A4fer+Netz Zoras Ka\u0308fer Netz", "<ssid-1> <ssid-1>"),
    ],
)
def test_a_known_value_is_found_as_tools_write_it(text: str, left: str) -> None:
    assert redacted(text, *KNOWN) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("699-13701-0005-500 J.0 1421321999999", "699-13701-0005-500 J.0 <serial-1>"),
        ("Serial Number | 1421321999999", "Serial Number | <serial-1>"),
        ("ID_SERIAL_SHORT=S4EWNX0R999999", "ID_SERIAL_SHORT=<serial-1>"),
        ("sn     : S4EWNX0R999999  ", "sn     : <serial-1>  "),
        ("<serial>1421321999999</serial>", "<serial><serial-1></serial>"),
        (r"\"serial\": \"1421321999999\"", r"\"serial\": \"<serial-1>\""),
        ("nvme-eui.0025385b91b12345-part1", "nvme-eui.<serial-1>-part1"),
        ('WWN="0x5002538e40b1a2b3"', 'WWN="0x<serial-1>"'),
        ('{"wwn": "0x5002538e40b1a2b3"}', '{"wwn": "<serial-1>"}'),
        ("ECID is 0x8001234470", "ECID is <chip-1>"),
        ("enx48b02daabbcc: flags", "enx<mac-1>: flags"),
        ("ethaddr=48B02DAABBCC", "ethaddr=<mac-1>"),
        ("48b0.2daa.bbcc", "<mac-1>"),
        ("/org/bluez/hci0/dev_48_B0_2D_AA_BB_CC", "/org/bluez/hci0/dev_<mac-1>"),
        ("UUID=8F0E-6BB5 vfat", "UUID=<uuid-1> vfat"),
        ("kernel: 192.168.1.5", "kernel: <ip-1>"),
        ("10.0.0.5-10.0.0.9", "<ip-1>-<ip-2>"),
        ("84.1.2.3-84.1.2.9", "<ip-1>-<ip-2>"),
        *(
            (f'{{"{key}": "8a1423922012345f"}}', f'{{"{key}": "<{kind}-1>"}}')
            for key, kind in (
                ("product_sn", "serial"),
                ("iSerial", "serial"),
                ("S/N", "serial"),
                ("eui64", "serial"),
                ("br_cid", "chip"),
                ("chip_id", "chip"),
                ("auth_token", "token"),
                ("wifi_mac", "mac"),
            )
        ),
        ("/tmp/pytest-of-bobby/pytest-0", "/tmp/pytest-of-<user-1>/pytest-0"),
        ("Linux somebox 5.15.148-tegra #1 SMP", "Linux <host-1> 5.15.148-tegra #1 SMP"),
        ("https://bob:to@ken@github.com/x", "https://<token-1>@github.com/x"),
        ("github_pat_11ABCDEFG0123456789_abc", "<token-1>"),
        ("HF_TOKEN=xyz123456789", "HF_TOKEN=<token-1>"),
    ],
)
def test_a_value_that_nobody_knew_is_shown_by_what_stands_before_it(text: str, left: str) -> None:
    assert redacted(text) == left


@pytest.mark.parametrize(
    "text",
    [
        '{"eos_token": "<|im_end|>", "first_token": "12.3456789012ms", "max_token": 12}',
        "user=1.2s sys=3, per_token=1.23456789e-05s, first_token: 12.3456789012ms, max_token=12",
        "console serial=ttyS0, ttyTHS0: serial: 16550A",
        "libnvinfer10 10.3.0.30-1+cuda12.5, vulkan 1.3.204.1, setuptools 65.5.0.1",
        "Linux 5.15.148-tegra #1 SMP, Linux version 6.1.0 #1 SMP, Linux version 5.15.148 (a) #1",
        "http://0.0.0.0:80 https://download.pytorch.org/whl https://pypi.jetson-ai-lab.dev/jp6",
        "TNSPEC 3701-500-0005-J.0-1-1-jetson-agx-orin-devkit-nvme0n1p1 699-13701-0005-500 J.0",
        "20_26_11_30_06_00, 1234.5678.9012, GCID: 38968081, BuildID[sha1]=9f86d081884c7d659a2f",
    ],
)
def test_what_is_only_written_like_one_stays(text: str) -> None:
    assert redacted(text, *KNOWN) == text


def test_serial_numbers_of_drives_are_read_from_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "dev/disk/by-id"
    folder.mkdir(parents=True)
    for name in (
        "ata-Samsung_SSD_860_EVO_1TB_S3Z1NB0K123456",
        "ata-Samsung_SSD_860_EVO_1TB_S3Z1NB0K123456-part10",
        "nvme-Samsung_SSD_980_S649NX0R123456_1", "nvme-eui.0025385b91b12345-part1",
        "wwn-0x5002538e40b1a2b3", "usb-SanDisk_Ultra_4C530001234567-0:0", "dm-name-root",
    ):  # fmt: skip
        (folder / name).touch()
    found = {s.value for s in read_identity(tmp_path, tmp_path, environ={}) if s.kind == "serial"}
    assert found == {
        "S3Z1NB0K123456", "S649NX0R123456", "eui.0025385b91b12345", "0x5002538e40b1a2b3",
        "4C530001234567",
    }  # fmt: skip


def test_every_name_of_a_line_is_a_hosts(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text(
        "127.0.0.1 localhost\n192.0.2.9 nas.shop.example diskstation  # the old one\n"
    )
    (tmp_path / "etc/resolv.conf").write_text("search a.example b.example\n")
    found = {s.value for s in read_identity(tmp_path, tmp_path, environ={}) if s.kind == "host"}
    names = {"nas.shop.example", "nas", "diskstation", "a.example", "a", "b.example", "b"}
    assert names <= found and not {"localhost", "old"} & found


def test_a_user_of_a_directory_service_is_a_person_and_nobody_is_none(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "zoralovel:x:1678201107:100:Zora Lovel:/data/people/zoralovel:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    )
    found = read_identity(tmp_path, tmp_path, environ={})
    assert Secret("name", "Zora Lovel") in found
    assert Secret("path", "/data/people/zoralovel", "~") in found
    assert Secret("user", "nobody") not in found
