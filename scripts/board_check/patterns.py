"""What is taken out wherever it stands, by how it is written."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

from board_check.secret import begins

Found = re.Match[str]


@dataclass(frozen=True)
class Pattern:
    """Text of a kind. What the group `value` has goes; `meant` tells of a doubtful one."""

    kind: str
    expression: re.Pattern[str]
    meant: Callable[[Found], bool] = lambda found: True


def _pattern(kind: str, text: str, meant: Callable[[Found], bool] = lambda found: True) -> Pattern:
    return Pattern(kind, re.compile(text, re.IGNORECASE), meant)


_OCTET = r"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"
_HEX = "[0-9a-f]"
_LETTER = r"(?<![^\W_])"  # none before
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
# Before a version of four parts, which is written like an address.
_VERSION = re.compile(
    r"(?:\bv|version\W{0,3}|[=~<>]=\s?|\.so\.|\b(?:lib)?(?:cuda|cudart|cublas\w*|cudnn|cufft|curand"
    r"|cusolver|cusparse|nccl|npp|nvinfer|nvjitlink|nvjpeg|onnx|opencv|setuptools|tensorrt|vpi|vulkan"
    r"|driver|kernel|llama)[\w-]*\W{1,3})$",
    re.IGNORECASE,
)
_PUBLIC_HOSTS = (
    "0.0.0.0", "127.0.0.1", "cmake.org", "debian.org", "example.com", "example.org", "github.com",
    "github.io", "gitlab.com", "google.com", "huggingface.co", "invalid", "jetson-ai-lab.dev",
    "kitware.com", "nvidia.com", "perfetto.dev", "pypi.org",
    "pytest.org", "python.org", "pythonhosted.org", "pytorch.org", "readthedocs.io", "ubuntu.com",
)  # fmt: skip
_UNITS = (".service", ".timer", ".socket", ".target", ".conf", ".mount", ".path", ".slice")


def _is_address(found: Found) -> bool:
    first = int(found["value"].split(".")[0])
    if first in (127, 255) or found["value"] == "0.0.0.0":  # of every machine
        return False
    if found["value"].startswith(("192.168.", "169.254.")):  # no version
        return True
    return not _VERSION.search(found.string[max(0, found.start() - 40) : found.start()])


def _is_address_6(found: Found) -> bool:
    try:
        address = ipaddress.IPv6Address(found["value"])
    except ValueError:
        return False  # a time, or C++
    if address.is_loopback or address.is_unspecified:
        return False
    groups = found["value"].split(":")  # `1::2` is a slice, and `dead::beef` a name
    return any(len(group) > 2 for group in groups) and re.search(r"\d", found["value"]) is not None


def _is_mac(found: Found) -> bool:
    """None is written in zeros, and a date with its time with dashes, too."""
    value = found["value"]
    digits = "[1-9a-f]" if ":" in value else "[a-f]"
    return re.search(digits, value, re.IGNORECASE) is not None


def _is_mail(found: Found) -> bool:
    return not found["value"].lower().endswith(_UNITS)  # orin-llm@bench.service


def _is_private_host(found: Found) -> bool:
    host = found["value"].lower()
    return "." in host and not any(
        host == public or host.endswith(f".{public}") for public in _PUBLIC_HOSTS
    )


def _is_serial(found: Found) -> bool:
    return _tells(found) and not found["value"].startswith(("tty", "16550"))  # lines of a console


def _tells(found: Found) -> bool:
    """What follows a label is a value, and not the word for none."""
    return found["value"].lower() not in ("none", "null", "true", "false", "unknown", "n/a", "is")


_SEP = r"\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?"  # as in JSON within a text, too
PATTERNS = (
    _pattern("token", r"(?<=://)(?P<value>[^\s/\"'<>]+)(?=@)"),
    _pattern(
        "token",
        r"\b(?P<value>(?-i:hf|gh[oprsu]|github_pat|glpat|nvapi|sk|pypi)[_-][a-z0-9_-]{16,})",
    ),
    _pattern("token", r"\b(?:bearer|authorization: basic)\s+(?P<value>[a-z0-9._~+/=-]{8,})"),
    _pattern(
        "token",
        rf"\b[\w-]{{0,40}}(?:password|passwd|secret|api[_-]?key|access[_-]?token){_SEP}"
        r"(?P<value>[^\s\"',;<>]+)",
        _tells,
    ),
    _pattern("token", r"\b(?P<value>(?-i:AKIA|ASIA)[A-Z0-9]{16})\b"),
    _pattern(
        "token",
        rf"\b[\w-]{{0,40}}token{_SEP}(?P<value>(?=[\w.~+/=-]{{0,40}}\d)(?![\d.]+(?:e[+-]?\d+)?[a-z]{{0,2}}\b)"
        r"(?=[\w.~+/=-]{0,40}[a-z])[\w.~+/=-]{12,})",
    ),
    _pattern(
        "email",
        r"(?<![\w.+-])(?P<value>[\w+-][\w.+-]*@(?:[\w-]+\.)+[^\W\d_]{2,})(?![\w-])",
        _is_mail,
    ),
    _pattern("uuid", rf"{begins(_LETTER)}(?P<value>(?:(?:GPU|MIG|DLA)-)?{_UUID})(?![^\W_])"),
    _pattern(
        "mac",
        rf"{begins(_LETTER)}(?<![0-9a-f][:_-])(?P<value>{_HEX}{{2}}(?:([:_-]){_HEX}{{2}})"
        rf"(?:\2{_HEX}{{2}}){{4,18}})(?![^\W_])(?!:{_HEX})",
        _is_mac,
    ),
    _pattern(
        "mac",
        rf"(?:{_LETTER}(?:en|wl|ww)x|\bmac{_SEP}|(?:bd|eth|hw|mac)[ _-]?addr(?:ess)?{_SEP})"
        rf"(?P<value>{_HEX}{{12}})(?![^\W_])",
    ),
    _pattern(
        "mac", rf"(?<![\w.])(?P<value>(?:{_HEX}{{4}}\.){{2}}{_HEX}{{4}})(?![\w.])", _is_mac
    ),
    _pattern("uuid", rf"\buuid=[\"']?(?P<value>{_HEX}{{4}}-{_HEX}{{4}})(?![\w-])"),
    _pattern(
        "ip",
        begins(r"(?<![\w:.])") + r"(?P<value>(?=[0-9a-f]*:[0-9a-f]*:)[0-9a-f:]*"
        r"(?:[0-9a-f]|::)(?:\.\d+){0,3})(?!\w)",
        _is_address_6,
    ),
    _pattern(
        "ip",
        begins(r"(?<![\w.])(?<!\d-)") + rf"(?P<value>{_OCTET}(?:\.{_OCTET}){{3}})(?!\w|\.\d)",
        _is_address,
    ),
    _pattern(
        "host", r"(?<=://)(?P<value>[a-z0-9-]+(?:\.[a-z0-9-]+)*)(?=[:/\s\"')]|$)", _is_private_host
    ),
    _pattern("host", r"(?<=@)(?P<value>[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?=[:/])", _is_private_host),
    _pattern("user", r"(?<=/home/)(?P<value>[^/\s\"'\\:;,<>)\]]+)"),
    _pattern("user", r"(?<=/Users/)(?P<value>[^/\s\"'\\:;,<>)\]]+)"),
    _pattern("user", r"(?<=pytest-of-)(?P<value>[^/\s\"'\\:;,<>)\]]+)"),
    _pattern("user", r"(?<![\w/])/(?:run/)?media/(?P<value>[^/\s\"'\\:;,<>)\]]+)(?=/)"),
    _pattern(
        "serial",
        rf"(?:{_LETTER}serial(?:[ _-]?(?:number|num|no\.?|short))?|serialno|product_sn|\bS/N|\bsn)"
        rf"(?:{_SEP}|>)(?P<value>[^\s\"',;<>\\]{{4,}})",
        _is_serial,
    ),
    _pattern(
        "serial",
        r"\bserial[ _-]?(?:number|num|no\.?)[ \t|]+(?P<value>(?=[a-z-]*\d)[a-z0-9-]{6,})",
    ),
    # The boards' EEPROMs have it behind the part number.
    _pattern("serial", r"\b699-\d{5}-\d{4}-\d{3}\b[^\n]{0,16}?\b(?P<value>\d{13})\b"),
    _pattern(
        "serial",
        rf"{_LETTER}(?:wwn|wwid|naa|eui|eui64|nguid)\W{{0,4}}(?:0x)?"
        rf"(?P<value>{_HEX}{{16}}(?:{_HEX}{{16}})?)(?![^\W_])",
    ),
    _pattern(
        "chip", rf"\b(?:ecid|br_cid|chip[ _-]?u?id|soc_uid)(?:{_SEP}|\s+(?:is\s+)?)"
        rf"(?P<value>(?:0x)?{_HEX}{{8,}})"
    ),
    _pattern("id", rf"\b(?:machine|boot)[ _-]?id{_SEP}(?P<value>[^\s\"',;<>]{{8,}})", _tells),
    _pattern("ssid", rf"\be?ssid{_SEP}(?P<value>[^\"'\n<>]+?)(?=[\"'\n]|\s*$)", _tells),
    _pattern("host", rf"\b(?:pretty[ _-]?)?host[ _]?name{_SEP}(?P<value>[\w.-]+)", _tells),
    _pattern("host", r"\bLinux (?!version )(?P<value>[\w.-]+)(?= \d+\.\d+\.\d+\S* #\d)"),
    _pattern(
        "user",
        r"\b(?:user(?:name)?|login|logname|sudo_user)=[\"']?(?P<value>[^\W\d][\w.-]*)",
        _tells,
    ),
)  # fmt: skip

# Keys of JSON objects whose values go, whatever they are.
KEYS = {
    "serial": re.compile(
        r"(?:.*[ _-])?serial(?:[ _-]?(?:number|num|no|short))?|serialno|sn|wwn|wwid|nguid",
        re.IGNORECASE,
    ),
    "chip": re.compile(r"ecid|soc_uid|chip[ _-]?uid", re.IGNORECASE),
    "mac": re.compile(r"mac|(?:bd|eth|hw|mac)[ _-]?addr(?:ess)?", re.IGNORECASE),
    "uuid": re.compile(r"(?:.*[ _-])?uuid", re.IGNORECASE),
    "id": re.compile(r"(?:machine|boot)[ _-]?id", re.IGNORECASE),
    "host": re.compile(r"host(?:[ _-]?name)?|nodename", re.IGNORECASE),
    "user": re.compile(r"user(?:[ _-]?name)?|login|logname", re.IGNORECASE),
    "ssid": re.compile(r"e?ssid", re.IGNORECASE),
    "token": re.compile(
        r".*(?:password|passwd|secret|api[_-]?key|access[_-]?token)", re.IGNORECASE
    ),
}


def kind_of_key(key: str) -> str:
    """What the value of this key is, or ""."""
    return next((kind for kind, name in KEYS.items() if name.fullmatch(key)), "")
