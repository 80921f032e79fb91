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
    r"-\d|[+~]\w|-?\.?(?:dev|rc|post|tegra)\d*\b|\.(?:tar|whl|deb|zip)\b"
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
    _pattern("uuid", rf"{_LETTER}(?P<value>(?:(?:GPU|MIG|DLA)-)?{_UUID})(?![^\W_])"),
    _pattern(
        "mac",
        rf"{_LETTER}(?<![0-9a-f][:_-])(?P<value>{_HEX}{{2}}(?:([:_-]){_HEX}{{2}})"
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
        r"(?<![\w:.])(?P<value>(?=[0-9a-f]*:[0-9a-f]*:)[0-9a-f:]*"
        r"(?:[0-9a-f]|::)(?:\.\d+){0,3})(?!\w)",
        _is_address_6,
    ),
    _pattern(
        "ip",
        rf"(?<![\w.])(?<!\d-)(?P<value>{_OCTET}(?:\.{_OCTET}){{3}})(?!\w|\.\d)",
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
        rf"(?:{_LETTER}i?serial(?:[ _-]?(?:number|num|no\.?|short))?|serialno|product_sn|\bS/N"
        rf"|\bsn)(?:{_SEP}|>)(?P<value>[^\s\"',;<>\\]{{4,}})",
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
        rf"{_LETTER}(?:wwn|wwid|naa|eui|eui64|nguid)\W{{0,4}}(?:0x)?"
        rf"(?P<value>{_HEX}{{16}}(?:{_HEX}{{16}})?)(?![^\W_])",
    ),
    _pattern(
        "chip", rf"\b(?:ecid|br_cid|chip[ _-]?u?id|soc_uid)(?:{_SEP}|\s+(?:is\s+)?)"
        rf"(?P<value>(?:0x)?{_HEX}{{8,}})"
    ),
    _pattern("id", rf"\b(?:machine|boot)[ _-]?id{_SEP}(?P<value>[^\s\"',;<>]{{8,}})", _tells),
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
KEYS = {
    "version": re.compile(r".*(?:version|release).*", re.IGNORECASE),
    "serial": re.compile(
        r"(?:.*[ _-])?serial(?:[ _-]?(?:number|num|no|short))?|serialno|sn|wwn|wwid|nguid",
        re.IGNORECASE,
    ),
    "chip": re.compile(r"ecid|soc_uid|chip[ _-]?uid", re.IGNORECASE),
    "mac": re.compile(r"mac|bssid|(?:bd|eth|hw|mac)[ _-]?addr(?:ess)?", re.IGNORECASE),
    "ip": re.compile(r"ip|ip[ _-]?addr(?:ess)?|ipv[46]", re.IGNORECASE),
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
