"""Where a server is: its address as people write it."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from orin_llm.errors import UsageError

_PORTS = {"http": 80, "https": 443}
_KNOWN_ENDS = ("/chat/completions", "/completions", "/models")


@dataclass(frozen=True)
class Address:
    """A server and the path below which it has OpenAI's interface, such as `/v1`."""

    scheme: str
    host: str
    port: int
    base: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `localhost:8080`, `http://host:8080/v1`, or the address of an endpoint.

        Raises:
            UsageError: it is no address of an HTTP server.
        """
        wanted = "expected an address such as http://localhost:8080"
        if any(ord(letter) <= 32 or ord(letter) >= 127 for letter in text):
            raise UsageError(f"{text!r} has characters that no address has: {wanted}")
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"{text}: {error}: {wanted}") from None
        if parts.scheme not in _PORTS or not host or port == 0:
            raise UsageError(f"{text} is no address of a server: {wanted}")
        if parts.username is not None or parts.query or parts.fragment:
            raise UsageError(f"{text} has more than host, port and path: {wanted}")
        base = parts.path.rstrip("/")
        for end in _KNOWN_ENDS:
            base = base.removesuffix(end)
        if not base.endswith("/v1"):
            base += "/v1"
        return cls(parts.scheme, host, port or _PORTS[parts.scheme], base)

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.base}"

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine: by a loopback address, or one of its own."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError:
            return False
        return any(_is_own(str(place[0])) for *_, place in found)


def _is_own(host: str) -> bool:
    """Only a machine's own address can be bound."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.is_loopback:
        return True
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True
