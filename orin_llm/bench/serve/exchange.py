"""One request on a connection of its own, times taken the moment its bytes are there.

A connection for each request, since one that stays open can hold a server's worker, and others
then wait for it though the server has nothing to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from orin_llm.bench.serve.address import Address
from orin_llm.bench.serve.failure import Failure

_LINGER_S = 0.2  # for the end of the body behind the last event


class Reader(Protocol):
    """Takes a response apart.

    Attributes:
        complete: what was wanted of it is there.
        drained: so is its end.
    """

    complete: bool

    @property
    def drained(self) -> bool: ...

    def push(self, at_ms: float, data: bytes) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class Place:
    """Where to connect to: looked up once, so that no request waits for a name server."""

    address: Address
    host: str
    tls: ssl.SSLContext | None

    async def send(
        self, request: bytes, reader: Reader, timeout_s: float, connected: Callable[[float], None]
    ) -> None:
        """Send a request and let `reader` read until it is complete.

        Args:
            timeout_s: for all of it, connection included.
            connected: told the time (ms of the loop's clock) when the connection is open.

        Raises:
            Failure: it did not end well.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        link = _Link(request, reader, done, connected)
        try:
            await asyncio.wait_for(self._exchange(link), timeout_s)
        except asyncio.TimeoutError:  # before Python 3.11 not the built-in one
            if not reader.complete:
                raise Failure("timeout", f"no end within {timeout_s:g} s") from None
        except ssl.SSLError as error:
            raise Failure("tls", _tls_text(error)) from None
        except ConnectionAbortedError as error:  # asyncio's, where a handshake does not end
            raise Failure("tls" if self.tls else "connect", str(error)) from None
        except OSError as error:
            raise Failure("connect", _reason(error)) from None
        finally:
            link.close()

    async def _exchange(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        name = self.address.host if self.tls else None
        await loop.create_connection(
            lambda: link, self.host, self.address.port, ssl=self.tls, server_hostname=name
        )
        await link.done
        await link.closing()


def _reason(error: OSError) -> str:
    """`Connection refused`: asyncio puts addresses in place of it."""
    return os.strerror(error.errno) if error.errno else str(error)


def _tls_text(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not believed: {error.verify_message}: SSL_CERT_FILE names a file "
            "with the authority's"
        )
    return f"no encrypted connection: {error.reason or error}"


class _Link(asyncio.Protocol):
    def __init__(
        self,
        request: bytes,
        reader: Reader,
        done: asyncio.Future[None],
        connected: Callable[[float], None],
    ) -> None:
        self.done = done
        self._request = request
        self._reader = reader
        self._connected = connected
        self._transport: asyncio.Transport | None = None
        self._closed = asyncio.Event()
        self._time = asyncio.get_running_loop().time

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connected(self._time() * 1e3)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        at_ms = self._time() * 1e3
        try:
            self._reader.push(at_ms, data)
        except Failure as failure:
            self._end(failure)
        else:
            if self._reader.complete:
                self._end(None)
        if self._reader.drained:
            self._closed.set()

    def _end(self, failure: Failure | None) -> None:
        """What comes first counts: after a complete answer nothing can go wrong any more."""
        if self.done.done():
            return
        if failure is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(failure)

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set()
        if error is not None:
            self._end(Failure("disconnect", str(error)))
            return
        try:
            self._reader.end()
        except Failure as failure:
            self._end(failure)
        else:
            self._end(None)

    async def closing(self) -> None:
        """Let the server close, who may have an end of the body to send, but for a moment only."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closed.wait(), _LINGER_S)

    def close(self) -> None:
        """Give up what is not done: nobody waits for it any more."""
        if not self.done.cancel() and not self.done.cancelled():
            self.done.exception()  # so that asyncio does not miss whoever asks for it
        if self._transport is not None:
            self._transport.abort()


async def find_place(address: Address, timeout_s: float) -> Place:
    """Look the server up and connect once, to the first of its addresses that answers.

    Raises:
        Failure: there is no such host, or nothing answers there.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Failure("connect", f"{address.host} is not found: {error}") from None
    problem = "no address"
    for host in dict.fromkeys(str(place[0]) for *_, place in found):
        try:
            connection = loop.create_connection(asyncio.Protocol, host, address.port)
            transport, _ = await asyncio.wait_for(connection, timeout_s)
        except asyncio.TimeoutError:
            problem = f"no answer within {timeout_s:g} s"
        except OSError as error:
            problem = _reason(error)
        else:
            transport.abort()
            tls = ssl.create_default_context() if address.scheme == "https" else None
            return Place(address, host, tls)
    raise Failure("connect", f"{address.authority}: {problem}")
