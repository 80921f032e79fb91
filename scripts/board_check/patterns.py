"""What is taken out wherever it stands, by how it is written."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from board_check.finders import Pattern

Found = re.Match[str]


def _pattern(kind: str, text: str, meant: Callable[[Found], bool] = lambda found: True) -> Pattern:
    return Pattern(kind, re.compile(text, re.IGNORECASE), meant)


_OCTET = r"(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])"
_HEX = "[0-9a-f]"
_LETTER = r"(?<![^\W_])"  # none before
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
# A version of four parts is written like an address. It is one where this stands before it,
_VERSION = re.compile(
    r"(?:(?<![^\W_])(?:v|ver|version[a-z_]*|release|rev)[^\w\n]{0,5}|[=~<>!]=\s?|\.so\."
    r"|\b(?:less|greater|lower|higher|newer|older|earlier|later) than "
    r"|(?<![^\W_])(?!(?:ip|host|node|addr)[-_])[a-z][\w.+]*[-_]"
    r"|\b(?:lib)?(?:cuda|cudart|cublas\w*|cudnn|cufft|curand|cusolver|cusparse|nccl|npp|nvinfer"
    r"|nvjitlink|nvjpeg|opencv|tensorrt|vpi|driver|kernel)[\w-]*\W{1,3})$",
    re.IGNORECASE,
)
# or this after it,
_RELEASE = re.compile(
    r"-\d+(?!\d*(?:\.\d+){3})|[+~]\w|-?\.?(?:dev|rc|post|tegra)\d*\b|\.(?:tar|whl|deb|zip)\b"
    r"| (?:and|or) (?:above|higher|later|lower|newer|older)\b"
)
# or a name, alone with it in a line or between commas.
_PROGRAM = re.compile(
    r"(?:^|[\n,;|(])[ \t]*(?!(?:addr\w*|at|by|client|dns|dst|from|gateway|gw|host\w*|inet|ip\w*"
    r"|local|nameserver|peer|ping|proxy|remote|route|server|src|to|via)\b)[a-z][\w.+-]*[ \t]+\(?$",
    re.IGNORECASE,
)
_ALONE = re.compile(r"[ \t]*(?:$|[\n,;|()])")
_PUBLIC_HOSTS = (
    "0.0.0.0", "127.0.0.1", "cmake.org", "debian.org", "example.com", "example.org", "github.com",
    "github.io", "gitlab.com", "google.com", "huggingface.co", "invalid", "jetson-ai-lab.dev",
    "kitware.com", "localhost", "nvidia.com", "perfetto.dev", "pypi.org",
    "pytest.org", "python.org", "pythonhosted.org", "pytorch.org", "readthedocs.io", "ubuntu.com",
)  # fmt: skip
_UNITS = (".service", ".timer", ".socket", ".target", ".conf", ".mount", ".path", ".slice")


def _is_address(found: Found) -> bool:
    address = ipaddress.IPv4Address(re.sub(r"\b0+(?=\d)", "", found["value"]))
    if address.is_loopback or address.is_unspecified or address.is_reserved:  # of every machine
        return False
    if str(address).startswith(("192.168.", "169.254.")):  # no version
        return True
    before = found.string[max(0, found.start() - 60) : found.start()]
    after = found.string[found.end() : found.end() + 12]
    if _VERSION.search(before) or _RELEASE.match(after):
        return False
    return address.is_private or not (_PROGRAM.search(before) and _ALONE.match(after))


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


def _is_login(found: Found) -> bool:
    """Linkers write `name@plt`, npm `name@latest`, systemd `orin-llm@unit`."""
    user, _, host = found["value"].lower().partition("@")
    return user != "orin-llm" and host not in ("plt", "got", "latest", "next")


def _is_private_host(found: Found) -> bool:
    host = found["value"].lower()
    return not any(host == public or host.endswith(f".{public}") for public in _PUBLIC_HOSTS)


def _is_serial(found: Found) -> bool:
    return _tells(found) and not found["value"].startswith(("tty", "16550"))  # lines of a console


def _tells(found: Found) -> bool:
    """What follows a label is a value, and not the word for none."""
    return found["value"].lower() not in ("none", "null", "true", "false", "unknown", "n/a", "is")


# What a value's label is, in text and as a key of JSON.
_SERIAL = r"i?serial(?:[ _-]?(?:number|num|no\.?|short))?|serialno|product_sn|S/N|sn"
_WORLD_WIDE = "wwn|wwid|naa|eui|eui64|nguid"
_CHIP = "ecid|br_cid|chip[ _-]?u?id|soc_uid"
_ID = "(?:machine|boot)[ _-]?id"
_MAC = "(?:bd|eth|hw|mac)[ _-]?addr(?:ess)?"
_PASSWORD = "password|passwd|secret|api[_-]?key|access[_-]?token"
# What else is called a token is one where it has digits and letters, and is no number with a unit.
_TOKEN = (
    r"(?=[\w.~+/=-]{0,40}\d)(?![\d.]+(?:e[+-]?\d+)?[a-z]{0,2}\b)(?=[\w.~+/=-]{0,40}[a-z])"
    r"[\w.~+/=-]{12,}"
)
_SEP = r"\\?[\"']?[ \t\x1c]*[:=][ \t\x1c]*\\?[\"']?"  # as in JSON within a text, too
PATTERNS = (
    _pattern("token", r"(?<=://)(?P<value>[^\s/\"'<>]+)(?=@)"),
    _pattern(
        "token",
        r"\b(?P<value>(?-i:hf|gh[oprsu]|github_pat|glpat|nvapi|sk|pypi)[_-][a-z0-9_-]{16,})",
    ),
    _pattern("token", r"\b(?:bearer|authorization: basic)\s+(?P<value>[a-z0-9._~+/=-]{8,})"),
    _pattern(
        "token",
        rf"\b[\w-]{{0,40}}(?:{_PASSWORD}){_SEP}(?P<value>[^\s\"',;<>]+)",
        _tells,
    ),
    _pattern("token", r"\b(?P<value>(?-i:AKIA|ASIA)[A-Z0-9]{16})\b"),
    _pattern("token", rf"\b[\w-]{{0,40}}token{_SEP}(?P<value>{_TOKEN})"),
    _pattern(
        "email",
        r"(?<![\w.+-])(?P<value>[\w+-][\w.+-]*@(?:[\w-]+\.)+[^\W\d_]{2,})(?![\w-])",
        _is_mail,
    ),
    _pattern("uuid", rf"{_LETTER}(?P<value>(?:(?:GPU|MIG|DLA)-)?{_UUID})(?![^\W_])"),
    _pattern(
        "mac",
        rf"{_LETTER}(?<![0-9a-f][:_-])(?P<value>{_HEX}{{2}}(?:([:_-]){_HEX}{{2}})"
        rf"(?:\2{_HEX}{{2}}){{4,18}})(?![^\W_])(?!:{_HEX})",
        _is_mac,
    ),
    _pattern(
        "mac",
        rf"(?:{_LETTER}(?:en|wl|ww)x|\bmac{_SEP}|{_MAC}{_SEP})"
        rf"(?P<value>{_HEX}{{12}})(?![^\W_])",
    ),
    _pattern(
        "mac", rf"(?<![\w.])(?P<value>(?:{_HEX}{{4}}\.){{2}}{_HEX}{{4}})(?![\w.])", _is_mac
    ),
    _pattern("uuid", rf"\buuid=[\"']?(?P<value>{_HEX}{{4}}-{_HEX}{{4}})(?![\w-])"),
    _pattern(
        "ip",
        r"(?<![\w:.])(?P<value>(?=[0-9a-f]*:[0-9a-f]*:)[0-9a-f:]*"
        r"(?:[0-9a-f]|::)(?:\.\d+){0,3})(?!\w)",
        _is_address_6,
    ),
    _pattern(
        "ip",
        rf"(?<![\w.])(?:(?<!\d-)|(?<=\.\d-)|(?<=\.\d\d-)|(?<=\.\d\d\d-))"
        rf"(?P<value>{_OCTET}(?:\.{_OCTET}){{3}})(?!\w|\.\d)",
        _is_address,
    ),
    _pattern(
        "host", r"(?<=://)(?P<value>[a-z0-9-]+(?:\.[a-z0-9-]+)*)(?=[:/\s\"')]|$)", _is_private_host
    ),
    _pattern("host", r"(?<=@)(?P<value>[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?=[:/])", _is_private_host),
    _pattern(
        "host",
        r"(?<![\w./-])(?P<value>[a-z0-9-]+\.(?:fritz\.box|local|lan|home|internal|localdomain))(?![\w/-])",
    ),
    _pattern(
        "user",
        r"(?<![\w.+-])(?P<value>[a-z_][\w.-]*@[a-z](?:[a-z0-9-]*[a-z0-9])?)(?![\w.@-])",
        _is_login,
    ),
    _pattern("user", r"(?:\b[ug]id=|\bgroups=|(?<=\)),)\d+\((?P<value>[^()\s]+)\)"),
    _pattern("user", r"(?:/home/|[/\\]users[/\\]|pytest-of-)(?P<value>[^/\s\"'\\:;,<>)\]]+)"),
    _pattern("user", r"(?<![\w/])/(?:run/)?media/(?P<value>[^/\s\"'\\:;,<>)\]]+)(?=/)"),
    _pattern(
        "serial",
        rf"{_LETTER}(?:{_SERIAL})(?:{_SEP}|>)(?P<value>[^\s\"',;<>\\]{{4,}})",
        _is_serial,
    ),
    _pattern(
        "serial",
        r"\b(?:serial[ _-]?(?:number|num|no\.?)|iserial[ \t]+\d+)[ \t|]+"
        r"(?P<value>(?=[a-z-]*\d)[a-z0-9-]{6,})",
    ),
    # The boards' EEPROMs have it behind the part number.
    _pattern("serial", r"\b699-\d{5}-\d{4}-\d{3}\b[^\n]{0,16}?\b(?P<value>\d{13})\b"),
    _pattern(
        "serial",
        rf"{_LETTER}(?:{_WORLD_WIDE})\W{{0,4}}(?:0x)?"
        rf"(?P<value>{_HEX}{{16}}(?:{_HEX}{{16}})?)(?![^\W_])",
    ),
    _pattern(
        "chip", rf"\b(?:{_CHIP})(?:{_SEP}|\s+(?:is\s+)?)"
        rf"(?P<value>(?:0x)?{_HEX}{{8,}})"
    ),
    _pattern("id", rf"\b{_ID}{_SEP}(?P<value>[^\s\"',;<>]{{8,}})", _tells),
    _pattern("ssid", rf"\be?ssid(?:{_SEP}| +[\"'])(?P<value>[^\"'\n<>]+?)(?=[\"'\n]|\s*$)", _tells),
    _pattern("host", rf"\b(?:pretty[ _-]?)?host[ _]?name{_SEP}(?P<value>[\w.-]+)", _tells),
    _pattern("host", r"\bLinux (?!version )(?P<value>[\w.-]+)(?= \d+\.\d+\.\d+\S* #\d)"),
    _pattern(
        "user",
        r"\b(?:user(?:name)?|login|logname|sudo_user)=[\"']?(?P<value>[^\W\d][\w.-]*)",
        _tells,
    ),
)  # fmt: skip

# Keys of JSON objects whose values go, whatever they are; numbers of versions stay.
_KEYS = {
    "version": r".*(?:version|release).*",
    "serial": rf"(?:.*[ _-])?(?:{_SERIAL}|{_WORLD_WIDE})",
    "chip": rf"(?:.*[ _-])?(?:{_CHIP})",
    "mac": rf"(?:.*[ _-])?(?:mac|bssid|{_MAC})",
    "ip": r"ip|ip[ _-]?addr(?:ess)?|ipv[46]",
    "uuid": r"(?:.*[ _-])?uuid",
    "id": _ID,
    "host": r"(?:pretty[ _-]?)?host(?:[ _-]?name)?|nodename",
    "user": r"user(?:[ _-]?name)?|login|logname",
    "ssid": r"e?ssid",
    "token": rf".*(?:{_PASSWORD})",
}
_KIND_OF_KEY = {kind: re.compile(name, re.IGNORECASE) for kind, name in _KEYS.items()}
_NAMES_TOKEN = re.compile(".*token", re.IGNORECASE)
_IS_TOKEN = re.compile(_TOKEN, re.IGNORECASE)


def kind_of(key: str, value: str) -> str:
    """What a key says of its value, or ""."""
    if _NAMES_TOKEN.fullmatch(key) and _IS_TOKEN.fullmatch(value):
        return "token"
    return next((kind for kind, name in _KIND_OF_KEY.items() if name.fullmatch(key)), "")
