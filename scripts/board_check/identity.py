"""The values of this machine that must not leave it, from the places that have them."""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from board_check.secret import Secret
from orin_llm.host.programs import ask

_ASK_S = 5.0
_MOST_BYTES = 1 << 16
_PEOPLE = range(1000, 1 << 32)  # user ids; those of directory services are large
_NOBODY = 65534
# Files below `/` whose whole content is a value.
_FILES = {
    "serial": (
        "proc/device-tree/serial-number",
        "sys/firmware/devicetree/base/serial-number",
        "sys/class/dmi/id/*_serial",
        "sys/class/dmi/id/*_asset_tag",
        "sys/devices/soc0/serial_number",
        "sys/block/*/serial",
        "sys/block/*/device/serial",
        "sys/block/*/device/cid",
        "sys/block/*/wwid",
        "sys/block/*/device/wwid",
        "sys/class/nvme/*/serial",
        "sys/bus/usb/devices/[0-9]*/serial",
    ),
    "chip": (
        "proc/device-tree/chosen/ecid",
        "sys/devices/soc0/soc_uid",
        "sys/devices/platform/*/ecid",
        "sys/devices/*/ecid",
        "sys/bus/nvmem/devices/fuse/ecid",
    ),
    "mac": (
        "sys/class/net/*/address",
        "sys/class/bluetooth/*/address",
        "proc/device-tree/chosen/nvidia,*-mac",
    ),
    "uuid": ("sys/class/dmi/id/product_uuid", "proc/sys/kernel/random/boot_id"),
    "id": ("etc/machine-id", "var/lib/dbus/machine-id"),
    "host": ("etc/hostname", "proc/sys/kernel/hostname"),
}
# Files that have values in between; the first group is one.
_WITHIN = {
    "serial": {
        "proc/cmdline": r"serialno=(\S+)",
        "proc/cpuinfo": r"(?m)^Serial\s*:\s*(\S+)",
        # What the boards' EEPROMs hold: numbers of 13 digits among part numbers.
        "sys/bus/i2c/devices/*/eeprom": r"(?<!\d)(\d{13})(?!\d)",
    },
    "mac": {
        "proc/cmdline": r"(?:mac|addr)\w*=((?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2})",
        "proc/net/arp": r"\s((?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2})\s",
    },
    "ip": {
        "proc/net/fib_trie": r"\|-- (?!127\.)(\S+)\n\s+/32 host LOCAL",
        "proc/net/arp": r"(?m)^(\d+\.\d+\.\d+\.\d+)\s",
        "etc/hosts": r"(?m)^(?!127\.)(\d+\.\d+\.\d+\.\d+)\s",
        "etc/resolv.conf": r"(?m)^nameserver\s+(?!127\.)(\S+)",
    },
    "host": {
        "etc/machine-info": r'(?m)^PRETTY_HOSTNAME="?([^"\n]+)',
    },
    "ssid": {
        "etc/NetworkManager/system-connections/*": r"(?m)^ssid=(.+)$",
        "etc/netplan/*.yaml": r'access-points:\s*\n\s+"?([^"\n:]+)',
        "etc/wpa_supplicant/*.conf": r'(?m)^\s*ssid="([^"\n]+)"',
    },
}
# Files that have several in a line, with blanks between.
_NAMES = {
    "etc/hosts": r"(?m)^(?!127\.0\.0\.)\d+\.\d+\.\d+\.\d+\s+([^#\n]+)",
    "etc/resolv.conf": r"(?m)^(?:search|domain)\s+([^#\n]+)",
}
# Folders with names that are values, and what of a name is one.
_LISTED = {
    "uuid": {"dev/disk/by-uuid/*": r"(.+)", "dev/disk/by-partuuid/*": r"(.+)"},
    "serial": {
        "dev/disk/by-id/*": r".*[_-]((?!part\d)(?=\D*\d)[^\W_]{6,})(?:[_-](?:part)?[\d:]+)*",
        "dev/disk/by-id/nvme-eui.*": r"nvme-(eui\.[0-9a-f]+)(?:-part\d+)?",
    },
}
_TOKEN = re.compile(r"TOKEN(?!S|IZ)|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL", re.IGNORECASE)

_STORES = {"ORIN_LLM_MODELS": "<models>", "ORIN_LLM_CACHE": "<cache>"}


def read_identity(
    root: Path,
    checkout: Path,
    folders: Mapping[Path, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> list[Secret]:
    """All that can be read without asking anyone; some only by root. `root` stands for `/`.

    Args:
        checkout: a repository whose user by git is a value.
        folders: of the owner's, and what stands for each.
    """
    found = [*_of_files(root), *_of_people(root, environ), *_of_programs(checkout)]
    found += [Secret("token", value) for name, value in environ.items() if _TOKEN.search(name)]
    stores = {Path(environ[name]): to for name, to in _STORES.items() if environ.get(name)}
    for folder, instead in {**stores, **(folders or {})}.items():
        found += _folders(folder, instead)
    users, hosts = ([s.value for s in found if s.kind == kind] for kind in ("user", "host"))
    found += [Secret("user", f"{user}@{host}") for user in set(users) for host in set(hosts)]
    return [secret for secret in dict.fromkeys(found) if secret.value.strip()]


def _of_files(root: Path) -> Iterator[Secret]:
    for kind, patterns in _FILES.items():
        for pattern in patterns:
            for path in _glob(root, pattern):
                yield from _host_and_short(kind, _text(path).strip("\0 \t\n"))
    for kind, expressions in _WITHIN.items():
        for pattern, expression in expressions.items():
            for path in _glob(root, pattern):
                for value in re.findall(expression, _text(path)):
                    yield from _host_and_short(kind, value.strip())
    for name, expression in _NAMES.items():
        for line in re.findall(expression, _text(root / name)):
            for host in line.split():
                yield from _host_and_short("host", host)
    for kind, expressions in _LISTED.items():
        for pattern, expression in expressions.items():
            for path in _glob(root, pattern):
                if found := re.fullmatch(expression, path.name):
                    yield Secret(kind, found[1])


def _host_and_short(kind: str, value: str) -> Iterator[Secret]:
    yield Secret(kind, value)
    if kind == "host" and "." in value:
        yield Secret(kind, value.split(".")[0])


def _of_people(root: Path, environ: Mapping[str, str]) -> Iterator[Secret]:
    """Users that are people, the user who runs this, and who called sudo."""
    yield from _host_and_short("host", socket.gethostname())
    for name in ("USER", "LOGNAME", "SUDO_USER"):
        if (user := environ.get(name)) and user != "root":
            yield Secret("user", user)
    people = [line.split(":") for line in _text(root / "etc/passwd").splitlines()]
    with suppress(KeyError):
        me = pwd.getpwuid(os.getuid())
        people.append([me.pw_name, "", str(me.pw_uid), "", me.pw_gecos, me.pw_dir, ""])
    for entry in people:
        if len(entry) == 7 and entry[2].isdecimal() and _is_person(int(entry[2])):
            yield Secret("user", entry[0])
            yield from _person(entry[4].split(",")[0])
            yield from _folders(Path(entry[5]), "~")
    yield from _folders(Path(environ.get("HOME", "/")), "~")


def _is_person(uid: int) -> bool:
    return uid in _PEOPLE and uid != _NOBODY


def _person(name: str) -> Iterator[Secret]:
    """A whole name, and its parts."""
    yield Secret("name", name)
    if " " in name.strip():
        yield from (Secret("name", part) for part in name.split() if len(part) > 3)


def _folders(folder: Path, instead: str) -> Iterator[Secret]:
    """A folder as it is called and where it really is; `/root` and the like tell nothing."""
    for path in {folder, Path(os.path.realpath(folder))}:
        if path.is_absolute() and len(path.parts) > 2:
            yield Secret("path", str(path), instead)


def _of_programs(checkout: Path) -> Iterator[Secret]:
    git = ("git", "-C", str(checkout), "config", "--get-all")
    for value in _lines(*git, "user.name"):
        yield from _person(value)
    yield from (Secret("email", value) for value in _lines(*git, "user.email"))
    yield from (Secret("ssid", value) for value in _lines("iwgetid", "-r"))
    for line in _lines("nmcli", "-t", "-f", "TYPE,NAME", "connection", "show"):
        kind, _, name = line.partition(":")
        if "wireless" in kind:
            yield Secret("ssid", name.replace("\\:", ":"))


def _glob(root: Path, pattern: str) -> list[Path]:
    try:
        return sorted(root.glob(pattern))
    except OSError:
        return []


def _lines(*command: str) -> list[str]:
    """What a program prints; nothing where it is not there."""
    try:
        done = ask(command, _ASK_S)
    except OSError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
