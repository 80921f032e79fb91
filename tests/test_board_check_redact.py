"""What leaves a board is without names and numbers of its owner, and is otherwise as it was."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fakes.boards import JETSONS
from hypothesis import example, given, settings
from hypothesis import strategies as st

from board_check.leaks import leaks
from board_check.redact import Redactor
from board_check.secret import Secret
from board_check.vocabulary import read_vocabulary

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = read_vocabulary(ROOT)
SERIAL, ECID, MAC, HOST, USER = (
    Secret("serial", "1423922012345"),
    Secret("chip", "0x80012344705DE42A1C0000000A018140"),
    Secret("mac", "48:b0:2d:7a:19:5f"),
    Secret("host", "zora-board"),
    Secret("user", "zora"),
)
PEOPLE = (
    Secret("name", "Zora Ñandú"),
    Secret("path", "/home/zora", "~"),
    Secret("path", "/home/zora/src/orin-llm", "<checkout>"),
    Secret("ssid", "Zora's Wi-Fi"),
)
SECRETS = (SERIAL, ECID, MAC, HOST, USER, *PEOPLE)


def redactor(*secrets: Secret) -> Redactor:
    return Redactor(secrets or SECRETS, VOCABULARY)


def redacted(text: str, *secrets: Secret) -> str:
    return redactor(*secrets).redact(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("S/N 1423922012345, again 1423922012345", "S/N <serial-1>, again <serial-1>"),
        ("board1423922012345b", "board<serial-1>b"),
        ("HwAddr 48:B0:2D:7A:19:5F, enx48b02d7a195f", "HwAddr <mac-1>, enx<mac-1>"),
        ("mac 00-1a-2B-3c-4d-5e", "mac <mac-1>"),
        ("zora@zora-board:~$", "<user-1>:~$"),
        ("ZORA-BOARD Zora zora2 zora_models", "<host-1> <user-1> <user-1>2 <user-1>_models"),
        ("-I/home/zora/src/orin-llm/cpp", "-I<checkout>/cpp"),
        ("/home/zora/models/x.gguf", "~/models/x.gguf"),
        ("/home/other/x /media/stick/y", "/home/<user-1>/x /media/<user-2>/y"),
        ("by Zora  Ñandú <me@zora.example>", "by <name-1> <<email-1>>"),
        ('ESSID:"Cafe 7" ssid=Home', 'ESSID:"<ssid-1>" ssid=<ssid-2>'),
        ("inet 192.168.1.20/24 via 8.8.8.8", "inet <ip-1>/24 via <ip-2>"),
        ("inet6 fe80::4ab0:2dff:fe7a:195f%eth0/64", "inet6 <ip-1>%eth0/64"),
        ("::ffff:192.168.1.20 x", "<ip-1> x"),
        ("010.001.002.003", "<ip-1>"),
        ("GPU-8f0e6bb5-8f7c-9f2a-d7a7-0123456789ab", "<uuid-1>"),
        ("root=PARTUUID=8F0E6BB5-8f7c-9f2a-d7a7-0123456789ab", "root=PARTUUID=<uuid-1>"),
        ("Serial Number: AB12-9", "Serial Number: <serial-1>"),
        ("ecid=0x8001234470", "ecid=<chip-1>"),
        ("hostname: somebox", "hostname: <host-1>"),
        (r"'\nzora\u00021423922012345\tx'", r"'\n<user-1>\u0002<serial-1>\tx'"),
        ("\x1b[32mzora\x1b[0m", "\x1b[32m<user-1>\x1b[0m"),
        ("https://me:pw@pypi.corp.net/simple", "https://<token-1>@<host-1>/simple"),
        ("HF_TOKEN hf_abcdefghijklmnopqrst", "HF_TOKEN <token-1>"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer <token-1>"),
    ],
)  # fmt: skip
def test_what_is_of_the_machine_or_its_owner_is_replaced(text: str, left: str) -> None:
    assert redacted(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "L4T 36.4.3, JetPack 6.2.1, CUDA 12.6.68, libcublas-12-6 12.6.4.1, libcudart.so.12.6.77.1",
        "libcublas.so.12.6.4.1 loaded, driver 540.4.0.1, version 8.9.7.29, numpy==2.1.0.3",
        "2026-11-30T06:00:00+00:00, 11-30-2026 06:00:00, 20-26-11-30-06-00",
        "EMC_FREQ 84%@3199 GR3D_FREQ 92%@[1300,1300] CPU@43.5C cpu@52.562C CV0@-256C lfb 6429x4MB",
        "std::vector<int>::size ab::cd times[1::2] tests/test_a.py::test_fade[be-1] dead::beef()",
        "orin-llm@bench.service, User, host_ms, sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b",
        "commit e17b8ddeadbeefe17b8ddeadbeefe17b8ddead12, 17000000.ga10b, 0000:01:00.0, 127.0.0.1",
        "http://localhost:8080/v1 https://github.com/x/y serial console, user 0m1.2s, 0.0.0.0 ::1",
        "zoramatic amazora",
    ],
)
def test_versions_times_clocks_and_code_survive(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "written by Yıldız, 300 K, ſſſſ",
        "addr 1.2.3.٤ x",
        "IPI0: 0 0 0 0 0 0 0 0 0 0 0 1",
        "cpu 1 2 3 4 5 6 7 8 cores",
        "/data/llm2/x of /data, v10.0.0.12",
    ],
)
def test_what_only_resembles_a_known_value_stays_whole(text: str) -> None:
    known = [
        Secret("serial", "000000000001"), Secret("serial", "12345678"), Secret("ip", "10.0.0.1"),
        Secret("path", "/data/llm", "<models>"), Secret("path", "/home/J\udcf6rg", "~"),
    ]  # fmt: skip
    redactor = Redactor(known, frozenset())
    assert redactor.redact(text) == text and leaks(text, redactor.secrets) == []


@pytest.mark.parametrize("name", ["a", "vm", "user", "orin", "orin-llm", "gpu", "ms", "power"])
@pytest.mark.parametrize("kind", ["user", "host"])
def test_a_name_that_is_a_common_word_is_left_but_where_a_place_shows_it(
    kind: str, name: str
) -> None:
    text = f"orin-llm: a user of the GPU, power 31 W in 2 ms, {name}"
    home = Secret("path", f"/home/{name}", "~")
    both = Secret("user", f"{name}@{name}")
    found = redacted(text, Secret(kind, name), home, both)
    assert found == text
    assert redacted(f"{name}@{name} /home/{name}/x", Secret(kind, name), home, both) in (
        "<user-1>@<host-1> ~/x",
        "<user-1> ~/x",
    )
    assert redacted(f"hostname={name} user={name}") == "hostname=<host-1> user=<user-1>"


def test_values_that_only_stand_for_none_are_no_secrets() -> None:
    for junk in (
        "0",
        "None",
        "To be filled by O.E.M.",
        "Default string",
        "00:00:00:00:00:00",
        "xxxx",
    ):
        text = f"None 0 {junk} Default"
        assert redacted(text, Secret("serial", junk), Secret("mac", junk)) == text


def test_keys_of_json_show_what_a_value_is() -> None:
    given_ = {
        "serial": 77,
        "user": "a",
        "hostname": "b",
        "user_ms": 3.5,
        "x": [{"uuid": "u", "y": 1}],
    }
    found = json.loads(redacted(json.dumps(given_)))
    assert found == {
        "serial": "<serial-1>", "user": "<user-1>", "hostname": "<host-1>", "user_ms": 3.5,
        "x": [{"uuid": "<uuid-1>", "y": 1}],
    }  # fmt: skip


def test_a_number_that_is_a_serial_does_not_break_json() -> None:
    text = '{"a": 1423922012345, "b": 14239220123456, "c": 1423922012345.5, "d": [1, 2.50]}'
    assert redacted(text) == text.replace("1423922012345,", '"<serial-1>",')


def test_json_within_json_and_within_lines_of_a_log_is_read() -> None:
    inner = json.dumps({"user": "me", "at": "Ñandú, Zora Ñandú"})
    outer = json.dumps({"said": inner})
    found = json.loads(json.loads(redacted(outer))["said"])
    assert found == {"user": "<user-1>", "at": "Ñandú, <name-1>"}
    log = f"begin\n{inner}\nend Zora Ñandú\n"
    assert redacted(log) == (
        'begin\n{"user": "<user-1>", "at": "\\u00d1and\\u00fa, <name-1>"}\nend <name-1>\n'
    )


def tegrastats() -> list[str]:
    lines = (ROOT / "tests/fakes/tegrastats/lines.txt").read_text().splitlines()
    return [*lines, *(board.line for board in JETSONS.values())]


@pytest.mark.parametrize("line", tegrastats())
def test_lines_of_tegrastats_are_unchanged_for_users_of_its_words(line: str) -> None:
    names = [
        Secret(kind, name) for kind in ("user", "host") for name in ("cpu", "tj", "ram", "emc")
    ]
    assert redacted(line, *SECRETS, *names) == line


def test_all_of_the_documentation_is_unchanged_but_for_addresses_of_mail_and_foreign_hosts() -> (
    None
):
    for path in (ROOT / "docs").glob("*.md"):
        if path.name == "board-check.md":
            continue
        text = path.read_text()
        found = redacted(text)
        changed = [
            (one, other)
            for one, other in zip(text.splitlines(), found.splitlines(), strict=True)
            if one != other
        ]
        assert all("@example.org" in one for one, other in changed), (path.name, changed)


WORDS = st.sampled_from(
    [*"{}[]\":,.-_/\\@% \n\t", "serial", "EMC_FREQ 84%@3199", "1", "42", "36.4.3", "é", "host=",
     "user: ", '{"a": 1}', "\\u00e9", "<serial-1>", "06:00:00", "/home/", "x", "ß", "://", "GPU-"]
)  # fmt: skip
TEXTS = st.one_of(st.lists(WORDS, max_size=12).map("".join), st.text(max_size=40))
HEX = "0123456789abcdef"
LETTERS = "bdfghjklmnpqrtvwxyz"  # no word of any vocabulary


@st.composite
def mails(draw: st.DrawFn) -> str:
    words = st.text(LETTERS, min_size=3, max_size=8)
    return f"q{draw(words)}@{draw(words)}.org"


@st.composite
def anywhere(draw: st.DrawFn) -> Secret:
    """Values that go wherever they stand, also within words."""
    kind = draw(st.sampled_from(["serial", "chip", "id", "uuid", "token", "email"]))
    if kind == "email":
        return Secret(kind, draw(mails()))
    value = draw(st.text(HEX + LETTERS, min_size=10, max_size=32))
    return Secret(kind, f"q{value}7")


@st.composite
def names(draw: st.DrawFn) -> Secret:
    kind = draw(st.sampled_from(["user", "host", "name", "ssid"]))
    value = draw(st.text(LETTERS + "-_ éñ0123456789", min_size=3, max_size=12))
    return Secret(kind, f"q{value.strip()}q")


def written(secret: Secret, how: int) -> str:
    value = secret.value
    forms = (
        value, value.upper(), value.lower(), value.title(), json.dumps(value)[1:-1],
        json.dumps(json.dumps(value))[1:-1], f'{{"k": {json.dumps(value)}}}', f"/home/{value}/x",
        json.dumps({"said": json.dumps({value: value})}),
    )  # fmt: skip
    return forms[how % len(forms)]


def has(text: str, value: str) -> bool:
    """In any case, in JSON's escapes of any depth."""
    seen = text.lower()
    for _ in range(3):
        if value.lower() in seen:
            return True
        seen = re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), seen).replace("\\\\", "\\")
    return False


@given(anywhere(), TEXTS, TEXTS, st.integers(0, 8))
@settings(max_examples=400, deadline=None)
def test_a_planted_number_is_never_there_after(
    secret: Secret, before: str, after: str, how: int
) -> None:
    text = before + written(secret, how) + after
    used = redactor(secret, *SECRETS)
    found = used.redact(text)
    assert not has(found, secret.value)
    assert leaks(found, used.secrets) == []


@given(names(), TEXTS, TEXTS, st.integers(0, 8))
@settings(max_examples=400, deadline=None)
def test_a_planted_name_is_never_there_after(
    secret: Secret, before: str, after: str, how: int
) -> None:
    for escape in (" ", "\\n", "\\t", "\\x02", "\x1b[1m"):
        text = f"{before}{escape}{written(secret, how)} {after}"
        assert not has(redacted(text, secret, *SECRETS), secret.value)


@st.composite
def by_pattern(draw: st.DrawFn) -> str:
    """Values that nobody knew of."""
    numbers = st.integers(0, 255)
    kind = draw(st.sampled_from(["mac", "ip", "ip6", "uuid", "email"]))
    if kind == "mac":
        return "02:" + ":".join(f"{draw(numbers):02x}" for _ in range(5))
    if kind == "ip":
        first = draw(st.integers(1, 223).filter(lambda n: n != 127))
        return ".".join(map(str, (first, *(draw(numbers) for _ in range(3)))))
    if kind == "ip6":
        return "2001:db8:" + ":".join(f"{draw(st.integers(1, 65535)):x}" for _ in range(6))
    return str(draw(st.uuids())) if kind == "uuid" else draw(mails())


@given(
    by_pattern(),
    st.sampled_from(["", " ", "(", "x=", "\n", '"', "\\n", "\x1b[1m"]),
    TEXTS,
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_what_looks_like_an_address_is_never_there_after(
    value: str, before: str, around: str, is_json: bool
) -> None:
    text = f"{around}, {before}{value} {around}"
    if is_json:
        text = json.dumps({around: [text]})
    assert not has(redacted(text), value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
    | st.sampled_from([s.value for s in SECRETS]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def shape(value: Any) -> Any:
    """What is left of a value without its leaves."""
    if isinstance(value, dict):
        return [shape(one) for one in value.values()]
    return [shape(one) for one in value] if isinstance(value, list) else None


@given(
    st.dictionaries(st.sampled_from(["a", "b", "serial", "user"]), VALUES),
    st.booleans(),
    st.sampled_from([None, 1]),
)
@settings(max_examples=300, deadline=None)
@example({"a": {"user": ""}, "serial": [{}, 1.5]}, True, 1)
def test_json_stays_json_of_the_same_shape(value: Any, ascii_: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_, indent=indent)
    found = redacted(text)
    assert shape(json.loads(found)) == shape(value)


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_what_is_redacted_once_is_not_changed_again(text: str) -> None:
    used = redactor()
    once = used.redact(text)
    assert used.redact(once) == once


def test_a_name_like_a_kind_does_not_spoil_the_placeholders() -> None:
    used = Redactor([SERIAL, Secret("user", "serial"), Secret("host", "user")], frozenset())
    found = used.redact("1423922012345 serial user")
    assert found == "<serial-1> <user-1> <host-1>" and used.redact(found) == found


def test_the_same_value_has_the_same_placeholder_in_all_files() -> None:
    used = redactor()
    first = used.redact("1423922012345 10.1.2.3 zora")
    second = used.redact("10.1.2.4 ZORA 10.1.2.3 1423922012345")
    assert first == "<serial-1> <ip-1> <user-1>"
    assert second == "<ip-2> <user-1> <ip-1> <serial-1>"
    assert used.counts == {"serial": 2, "ip": 3, "user": 2}
