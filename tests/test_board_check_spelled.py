"""A known value never survives, however it is spelled; and what is still there is seen."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board_check.leaks import leaks
from board_check.redact import Redactor
from board_check.secret import Secret

Spelling = Callable[[str, int], str]


def _per_byte(form: str, separator: str = "", *, backwards: bool = False) -> Spelling:
    def spelled(value: str, _: int) -> str:
        data = value.encode()
        return separator.join(form.format(byte) for byte in (data[::-1] if backwards else data))

    return spelled


def _folded(fold: str) -> Spelling:
    def spelled(value: str, seed: int) -> str:
        at = 1 + seed % (len(value) - 1)
        return f"{value[:at]}{fold}{value[at:]}"

    return spelled


def _base64(value: str, seed: int) -> str:
    before, after = seed % 4, seed // 4 % 4
    return base64.b64encode(b"/" * before + value.encode() + b"/" * after).decode()


def _wrapped_base64(value: str, _: int) -> str:
    return base64.encodebytes(b"/" * 50 + value.encode() + b"/" * 9).decode()


SPELLINGS: dict[str, Spelling] = {
    "plain": lambda value, _: value,
    "upper": lambda value, _: value.upper(),
    "folded": _folded("\n"),
    "folded and indented": _folded("\r\n    "),
    "folded with a backslash": _folded("\\\n"),
    "folded with a bar": _folded("\n  | "),
    "folded within JSON": lambda value, seed: json.dumps(_folded("\n ")(value, seed)),
    "coloured": _folded("\x1b[01;31m"),
    "percent": _per_byte("%{:02x}"),
    "percent where needed": lambda value, _: quote(value, safe=""),
    "octal": _per_byte("\\{:03o}"),
    "escaped bytes": _per_byte("\\x{:02X}"),
    "escaped twice": _per_byte("\\\\x{:02x}"),
    "unicode escapes": lambda value, _: "".join(f"\\u{ord(one):04x}" for one in value),
    "entities": lambda value, _: "".join(f"&#{ord(one)};" for one in value),
    "json": lambda value, _: json.dumps(json.dumps(value)),
}
CODES: dict[str, Spelling] = {
    "hex": _per_byte("{:02x}"),
    "hex with spaces": _per_byte("{:02X}", " "),
    "hex with colons": _per_byte("{:02x}", ":"),
    "hex of C": _per_byte("0x{:02x}", ", "),
    "hex in groups": lambda value, _: re.sub("(.{8})", r"\1 ", value.encode().hex()),
    "hex of lines": _per_byte("{:02x}", "\n"),
    "hex backwards": _per_byte("{:02x}", backwards=True),
    "hex backwards with spaces": _per_byte("{:02x}", " ", backwards=True),
    "base64": _base64,
    "wrapped base64": _wrapped_base64,
}
LETTERS = "bdfghjklmnpqrtvwxyz"


@st.composite
def secrets(draw: st.DrawFn) -> Secret:
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["user", "host", "name", "ssid"]))
        return Secret(kind, draw(st.text(LETTERS + "é", min_size=3, max_size=10)))
    kind = draw(st.sampled_from(["serial", "id", "token"]))
    return Secret(kind, "q" + draw(st.text("0123456789abcdef" + LETTERS, min_size=7, max_size=24)))


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_known_value_goes_however_it_is_spelled(name: str) -> None:
    @given(secrets(), st.integers(0, 1000), st.sampled_from(["", "a line\n", "key="]))
    @settings(max_examples=30, deadline=None)
    def goes(secret: Secret, seed: int, before: str) -> None:
        used = Redactor([secret], frozenset())
        spelled = SPELLINGS[name](secret.value, seed)
        found = used.redact(f"{before}/{spelled}/ after")
        assert used.counts and spelled.strip() not in found, found
        assert leaks(found, used.secrets) == []

    goes()


@pytest.mark.parametrize(
    "name",
    sorted({*SPELLINGS, *CODES} - {"octal", "unicode escapes", "entities", "folded within JSON"}),
)
def test_a_value_that_was_not_taken_out_is_seen(name: str) -> None:
    secret = Secret("serial", "S4EWNX0R123456")
    spelled = {**SPELLINGS, **CODES}[name](secret.value, 5)
    assert leaks(f"a {spelled} b", [secret]) == ["serial"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (r"\u0041\u002f\u007a\u006f\u0072\u0061\u002f\u0042", r"\u0041\u002f<user-1>\u002f\u0042"),
        (
            r"\u007a\u006f\u0072\u0061\ud83d\udc1e\u007a\u006f\u0072\u0061",
            r"<user-1>\ud83d\udc1e<user-1>",
        ),
        (r"\x41\x2f\172\157\162\141%2f%42", r"\x41\x2f<user-1>%2f%42"),
        (r"\xc3\xa9 \x7aora \\x7aora", r"\xc3\xa9 <user-1> <user-1>"),
        ("a\n  zo\n  ra\n  b", "a\n  <user-1>\n  b"),
        ("\x1b[1mzo\x1b[0mra\x1b[0m", "\x1b[1m<user-1>\x1b[0m"),
    ],
)
def test_what_stands_beside_a_value_in_the_same_code_stays(text: str, left: str) -> None:
    assert Redactor([Secret("user", "zora")], frozenset()).redact(text) == left


UNKNOWN = {
    "iSerial                 3 0123456789ABC": "0123456789abc",
    "SSID 'Zelda Home' of nas.fritz.box": "zelda home nas",
    "uid=1000(bob) gid=1000(bob) groups=1000(bob),27(bobs)": "bob",
    "cd %2Fhome%2Fbob%2Fx": "bob",
    "http://robot7:8080/v1 and http://robot7.local": "robot7",
    "ssh://robot7/": "robot7",
    "bob@robot7:~$ ls": "bob robot7",
    "scp x bob@robot7:": "bob robot7",
    "avahi: robot7.local, robot7.lan": "robot7",
    "fe80::4ab0:2dff:fe7a:195f%wlan0 [fe80::4ab0:2dff:fe7a:195f%25eth0]:80": "4ab0 195f",
    "BSSID=02:1a:2b:3c:4d:5e SSID: Zelda Home": "1a:2b zelda",
}  # fmt: skip


@pytest.mark.parametrize("text", UNKNOWN)
def test_a_value_that_nobody_knew_is_shown_by_its_place(text: str) -> None:
    found = Redactor([], frozenset()).redact(text).lower()
    assert not [value for value in UNKNOWN[text].split() if value in found], found


@pytest.mark.parametrize(
    "text",
    [
        "frobnicate 1.2.3.4\n", "frobnicate    1.2.3.4\nother  2.3.4.5\n", "frobnicate-1.2.3.4",
        "Version: 1.2.3.4", "release 1.2.3.4", "v1.2.3.4", "frobnicate (1.2.3.4)", "x==1.2.3.4",
        "frobnicate_1.2.3.4_arm64.deb", "frobnicate 10.2.3.4-1",
        "frobnicate 1.2.3.4, other 2.3.4.5", "1.2.3.4+cuda12.6", "1.2.3.4.dev0", "12.6.4.1.tar.gz",
        '__version__ = "3.5.0.1"', "VERSION_LESS 2.8.10.1", "x 2.8.10.1 or newer",
        '{"libcublas": {"version": "12.6.4.1"}, "x": {"version": "10.3.0.3"}}',
        "foo@plt memcpy@GLIBC_2.17 npm@latest cpu@52.5C orin-llm@bench.service",
        "Package    Version\n---------- -------\nsetuptools 65.5.0.1\n",
    ],
)  # fmt: skip
def test_versions_of_programs_that_nobody_listed_stay(text: str) -> None:
    assert Redactor([], frozenset()).redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "gateway 84.1.2.3", "from 84.1.2.3 port 22", "robot 10.2.3.4", "84.1.2.3:80", "x=84.1.2.3",
        "frobnicate 192.168.1.2", "ip-10.2.3.4", "inet 84.1.2.3/24", "a 84.1.2.3 b", "(84.1.2.3)",
    ],
)  # fmt: skip
def test_an_address_is_no_version(text: str) -> None:
    assert "<ip-1>" in Redactor([], frozenset()).redact(text)


def test_an_address_of_this_machine_is_no_version_wherever_it_stands() -> None:
    used = Redactor([Secret("ip", "84.1.2.3")], frozenset())
    assert used.redact("frobnicate-84.1.2.3") == "frobnicate-<ip-1>"
    assert used.redact('{"version": "84.1.2.3"}') == '{"version": "<ip-1>"}'
