"""Fetching one large file over HTTP: resumed where it stopped, retried, never silently wrong."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orin_llm.errors import ModelFileError, OrinError
from orin_llm.host.disk import require_space
from orin_llm.host.units import size_text
from orin_llm.models.reporter import Progress, Reporter
from orin_llm.models.sources.redirects import SafeRedirects, is_loopback

READ_BYTES = 1 << 20
RETRY_AFTER_LIMIT_S = 60.0
_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class HttpPolicy:
    """Patience: seconds without a byte, attempts without progress, first pause (then doubled)."""

    timeout_s: float = 30.0
    attempts: int = 5
    pause_s: float = 1.0


@dataclass(frozen=True)
class HttpFile:
    """What to fetch.

    Attributes:
        url: its address.
        headers: sent to that host only; a redirect elsewhere gets no authorization.
        bytes: the size it must have, where that is known.
        verified: its checksum is known, so that a partial file may be continued even if the
            server gives nothing to recognise it by.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    bytes: int | None = None
    verified: bool = False


class HttpRefused(OrinError):
    """The server answered with an error. `status` is its number."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Transient(Exception):
    """Worth another attempt, after `pause_s` where the server asked for a pause."""

    def __init__(self, message: str, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.pause_s = pause_s


def download(
    wanted: HttpFile, target: Path, reporter: Reporter, policy: HttpPolicy | None = None
) -> None:
    """Fetch `wanted` to `target`, continuing `target.part` where it is still the same file.

    Raises:
        HttpRefused: the server says no (missing, forbidden …).
        ModelFileError: what it sends is no GGUF file.
        OrinError: no connection, no room, or too many failures; what came is kept for next time.
    """
    _Download(wanted, target, reporter, policy or HttpPolicy()).run()


class _Download:
    def __init__(
        self, wanted: HttpFile, target: Path, reporter: Reporter, policy: HttpPolicy
    ) -> None:
        self.wanted, self.target, self.reporter, self.policy = wanted, target, reporter, policy
        self.part = target.with_name(target.name + ".part")
        self.state_file = target.with_name(target.name + ".part.json")
        handlers: list[urllib.request.BaseHandler] = [SafeRedirects()]
        if is_loopback(urlsplit(wanted.url).hostname):
            handlers.append(urllib.request.ProxyHandler({}))  # no proxy reaches this machine
        self.opener = urllib.request.build_opener(*handlers)
        self.reached = 0  # position behind the last byte that came

    def run(self) -> None:
        failures, furthest = 0, 0
        while True:
            try:
                self._attempt()
                break
            except _Transient as problem:
                # A server that cannot resume and always breaks off makes no progress either.
                failures = 1 if self.reached > furthest else failures + 1
                furthest = max(furthest, self.reached)
                if failures >= self.policy.attempts:
                    raise OrinError(self._gave_up(str(problem))) from None
                pause = problem.pause_s or self.policy.pause_s * 2 ** (failures - 1)
                self.reporter.message(f"{problem}; trying again in {pause:.0f} s")
                time.sleep(pause)
        self.part.rename(self.target)
        self.state_file.unlink(missing_ok=True)

    @property
    def _where(self) -> str:
        """The address without its query, which may hold a signature."""
        return self.wanted.url.partition("?")[0]

    def _attempt(self) -> None:
        have, headers = self._resume_from()
        request = urllib.request.Request(self.wanted.url, headers=headers)
        try:
            with self.opener.open(request, timeout=self.policy.timeout_s) as response:
                self._receive(response, have)
        except urllib.error.HTTPError as error:
            with error:
                self._on_status(error, have)
        except urllib.error.URLError as error:
            self._on_no_answer(error.reason)
        except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
            raise _Transient(f"the connection broke ({_text(error)})") from None

    def _resume_from(self) -> tuple[int, dict[str, str]]:
        """How many bytes are here already, and the headers that ask for the rest."""
        headers = {
            "User-Agent": "orin-llm",
            **self.wanted.headers,
            "Accept-Encoding": "identity",
        }
        state = self._read_state()
        have = self.part.stat().st_size if self.part.exists() else 0
        same_url = state.get("url") == self._where
        validator = state.get("validator")
        if have and not self.wanted.verified and not (same_url and validator):
            have = 0  # nothing would tell a changed file from the one we began
        if have:
            headers["Range"] = f"bytes={have}-"
            if validator and same_url:
                headers["If-Range"] = validator
        return have, headers

    def _receive(self, response: Any, have: int) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise OrinError(f"{self._where}: the server sends the file compressed; not supported")
        start, total = _span(response, have)
        if start not in (0, have):
            self._forget()
            raise _Transient(f"the server sent bytes from {start} on instead of {have}")
        if self.wanted.bytes is not None and total not in (None, self.wanted.bytes):
            raise OrinError(
                f"{self._where}: the server offers {total} bytes where {self.wanted.bytes} were "
                "expected: the file has changed, or the address leads elsewhere"
            )
        total = total if total is not None else self.wanted.bytes
        if total is not None:
            require_space(self.part.parent, total - start)
        if have and not start:
            self.reporter.message("the server cannot go on where it stopped: starting over")
        self._write_state(response)
        with open(self.part, "r+b" if start else "wb") as file:
            file.seek(start)
            file.truncate()
            self._copy(response, file, start, total)

    def _copy(self, response: Any, file: Any, done: int, total: int | None) -> None:
        head = b"" if done == 0 else None
        step = f"fetching {self.target.name}"
        self.reporter.progress(Progress(step, done, total))
        while chunk := response.read1(READ_BYTES):
            if head is not None:
                head = _require_gguf(head + chunk, response, self._where)
            done += len(chunk)
            if total is not None and done > total:
                self._forget()
                raise OrinError(
                    f"{self._where}: the server sends more than the {total} bytes it said"
                )
            file.write(chunk)
            self.reached = done
            self.reporter.progress(Progress(step, done, total))
        if total is not None and done < total:
            raise _Transient(f"the connection ended after {size_text(done)} of {size_text(total)}")
        if done < 4:
            raise ModelFileError(f"{self._where}: the server sent an empty file")

    def _on_status(self, error: urllib.error.HTTPError, have: int) -> None:
        if error.code == 416 and have:
            if _total_of(error.headers.get("Content-Range", "")) == have:
                return  # nothing is missing
            self._forget()
            raise _Transient("the file on the server is shorter than what was here")
        if error.code in _TRANSIENT_STATUS:
            asked = error.headers.get("Retry-After", "")
            pause = min(float(asked), RETRY_AFTER_LIMIT_S) if asked.isdigit() else 0.0
            raise _Transient(
                f"{self._where}: the server answers {error.code} {error.reason}", pause
            )
        advice = {
            401: "it needs a login, which https: addresses cannot give",
            403: "access is not allowed: has the link expired, or must a licence be accepted?",
            404: "there is no such file: check the address",
            410: "the file is gone: check the address",
        }.get(error.code, "the server refuses")
        raise HttpRefused(f"{self._where}: {advice} ({error.code} {error.reason})", error.code)

    def _on_no_answer(self, reason: Any) -> None:
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise OrinError(
                f"{self._where}: the server's certificate is not trusted "
                f"({reason.verify_message}). Is the date of this machine right?"
            )
        if self.reached or isinstance(reason, TimeoutError | ConnectionResetError):
            raise _Transient(f"no connection ({_text(reason)})")
        if isinstance(reason, socket.gaierror):
            raise OrinError(f"{self._where}: the host is not known. Is this machine on a network?")
        raise OrinError(f"{self._where}: no connection ({_text(reason)})")

    def _gave_up(self, problem: str) -> str:
        have = self.part.stat().st_size if self.part.exists() else 0
        return (
            f"{problem}; gave up after {self.policy.attempts} attempts. {size_text(have)} are "
            "kept: pull again to go on from there"
        )

    def _forget(self) -> None:
        self.part.unlink(missing_ok=True)
        self.state_file.unlink(missing_ok=True)

    def _read_state(self) -> dict[str, str]:
        try:
            state = json.loads(self.state_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _write_state(self, response: Any) -> None:
        etag = response.headers.get("ETag", "")
        # A weak tag may not be used with If-Range (RFC 9110, 13.1.5).
        strong = etag if etag.startswith('"') else ""
        validator = strong or response.headers.get("Last-Modified", "")
        state = {"url": self._where, "validator": validator}
        self.state_file.write_text(json.dumps(state), encoding="utf-8")


def _span(response: Any, have: int) -> tuple[int, int | None]:
    """First byte and whole size that the answer promises; the size is None where it is not said."""
    length = response.headers.get("Content-Length", "")
    if response.status != 206:
        return 0, int(length) if length.isdigit() else None
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if not match:
        raise _Transient("the server sent a part of the file without saying which")
    return int(match[1]), int(match[2]) if match[2] != "*" else None


def _total_of(content_range: str) -> int | None:
    match = re.fullmatch(r"bytes \*/(\d+)", content_range)
    return int(match[1]) if match else None


def _require_gguf(head: bytes, response: Any, url: str) -> bytes | None:
    """Stop early when the file begins like anything but GGUF; None once that is settled."""
    if len(head) < 4:
        return head
    if head.startswith(b"GGUF"):
        return None
    kind = response.headers.get("Content-Type", "")
    if "html" in kind or head.lstrip().lower().startswith((b"<!do", b"<htm")):
        found = "a web page. Give the address of the file itself, or hf:owner/repo"
    elif head.startswith(b"vers"):
        found = "a Git LFS pointer, not the file it stands for. Give the address of the file itself"
    else:
        found = f"something else (it begins {head[:4]!r})"
    raise ModelFileError(f"{url}: expected a GGUF file, the server sent {found}")


def _text(reason: object) -> str:
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
