"""Servers that do wrong: every request ends, as a failure of its kind, and the others go on."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from stub_server import (
    Asked,
    Reply,
    Sender,
    Stub,
    chunk,
    error_reply,
    json_reply,
    plain_reply,
    stream_head,
    text_event,
)
from virtual_time import run_virtually

from orin_llm.bench.serve.address import Address
from orin_llm.bench.serve.client import Client, Order, Outcome
from orin_llm.bench.serve.exchange import Place, find_place
from orin_llm.bench.serve.failure import Failure
from orin_llm.bench.serve.prompts import Prompt
from orin_llm.errors import UsageError

TIMEOUT_S = 30
PROMPT = Prompt.of("x")


def says(*parts: bytes, pause_s: float = 0.0, then_s: float = 0.0, cut: bool = False) -> Reply:
    """A server that answers with these bytes, `pause_s` before each."""

    async def reply(asked: Asked, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            await asyncio.sleep(pause_s)
            writer.write(part)
            await writer.drain()
        await asyncio.sleep(then_s)
        if cut:
            writer.transport.abort()

    return reply


def streams(*events: bytes, **more: float | bool) -> Reply:
    return says(stream_head(), *(chunk(b"data: " + e + b"\n\n") for e in events), **more)  # type: ignore[arg-type]


ASKED = Asked(0, "POST", "/v1/chat/completions", {}, {"messages": []})
WORD = json.dumps(text_event(ASKED, "word")).encode()
TOO_MANY = json.dumps(
    {**text_event(ASKED, "word"), "usage": {"completion_tokens": 2_000_000_000}}
).encode()


async def for_ever(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """A token every 50 ms, however many were asked for."""
    sender = Sender(writer)
    while True:
        await asyncio.sleep(0.05)
        sender.send(b"data: " + WORD + b"\n\n")
        await writer.drain()


async def never_a_line(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(stream_head())
    while True:
        writer.write(chunk(b"x" * 65536))
        await writer.drain()


def outcome_of(fault: Reply, max_tokens: int = 4) -> Outcome:
    async def work() -> Outcome:
        async with Stub(fault=fault).listening() as url:
            place = await find_place(Address.parse(url), 5)
            client = Client(place, "stub", timeout_s=TIMEOUT_S)
            return await client.complete(Order(PROMPT, max_tokens), 0.0)

    return run_virtually(work())


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (says(error_reply(429, "slow down")), "HTTP 429", "slow down"),
        (says(error_reply(500, "out of memory")), "HTTP 500", "out of memory"),
        (says(plain_reply(b"<html>\n\nBad gateway</html>", 502)), "HTTP 502", "'<html> Bad gatew"),
        (says(plain_reply(b"", 503)), "HTTP 503", "without a word"),
        (says(plain_reply(b"\xff\x00{", 500)), "HTTP 500", ""),
        (says(plain_reply(b"", 307, "Location: https://other/v1\r\n")), "HTTP 307",
         "sends us to 'https://other/v1': name that address"),
        (says(json_reply({"choices": [{"message": {"content": "all"}}]})), "no stream", "TTFT"),
        (says(json_reply({"error": {"message": "no such model"}})), "server error", "no such"),
        (streams(b'{"error": {"message": "cuda"}}'), "server error", "cuda"),
        (streams(WORD, b"{nonsense"), "stream", "no JSON object: '{nonsense'"),
        (streams(WORD, cut=True), "disconnect", ""),
        (says(stream_head() + chunk(b"data: {"), cut=True), "disconnect", ""),
        (says(), "disconnect", "before its answer"),
        (says(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + WORD + b"\n\n"),
         "disconnect", "without an end"),
        (says(b"220 mail.example ESMTP\r\n"), "no HTTP", "220 mail"),
        (says(stream_head() + b"nonsense\r\n"), "no HTTP",
         "illegal chunk header: 'nonsense'"),
        (streams(b"[DONE]"), "empty", "without text"),
        (for_ever, "too long", "did not end at 4 tokens"),
        (streams(TOO_MANY, b"[DONE]"), "too long", "2000000000 tokens, and 4 wanted"),
        (never_a_line, "stream", "an event of more than"),
        (says(then_s=1e6), "timeout", "no end within 30 s"),
        (says(*[bytes([b]) for b in stream_head()], pause_s=1), "timeout", "no end within 30 s"),
        (streams(WORD, WORD, then_s=1e6), "timeout", "no end within 30 s"),
    ],
)  # fmt: skip
def test_each_fault_has_its_kind_and_is_told_in_one_line(
    fault: Reply, kind: str, message: str
) -> None:
    record = outcome_of(fault).record
    assert record.error_kind == kind
    assert record.error.startswith(f"{kind}: ") and message in record.error
    assert "\n" not in record.error and len(record.error) < 400
    assert record.e2el_ms <= TIMEOUT_S * 1e3 + 1


def test_a_server_that_closes_late_costs_its_answer_nothing() -> None:
    async def lingers(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + chunk(b"data: " + WORD + b"\n\ndata: [DONE]\n\n"))
        await writer.drain()
        await asyncio.sleep(60)

    record = outcome_of(lingers).record
    assert (record.error, record.e2el_ms) == ("", pytest.approx(0, abs=1e-6))


def test_a_time_that_is_over_while_a_server_closes_is_no_failure() -> None:
    async def lingers(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head())
        await asyncio.sleep(TIMEOUT_S - 0.1)
        writer.write(chunk(b"data: " + WORD + b"\n\ndata: [DONE]\n\n"))
        await writer.drain()
        await asyncio.sleep(60)

    record = outcome_of(lingers).record
    assert (record.error, record.e2el_ms) == ("", pytest.approx(TIMEOUT_S * 1e3 - 100))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_where_nobody_listens_that_is_said() -> None:
    with pytest.raises(Failure, match="connect: 127.0.0.1:") as found:
        run_virtually(find_place(Address.parse(f"127.0.0.1:{free_port()}"), 5))
    assert str(found.value).endswith("Connection refused")
    with pytest.raises(Failure, match="no-such-host.invalid is not found"):
        run_virtually(find_place(Address.parse("http://no-such-host.invalid"), 5))


def test_a_server_that_goes_away_fails_what_is_asked_of_it_after() -> None:
    async def work() -> list[Outcome]:
        async with Stub(first_ms=5).listening() as url:
            client = Client(await find_place(Address.parse(url), 5), "stub")
            first = await client.complete(Order(PROMPT, 1), 0.0)
        return [first, await client.complete(Order(PROMPT, 1), 0.0)]

    first, second = run_virtually(work())
    assert first.record.error == "" and second.record.error_kind == "connect"
    assert second.connect_ms is None


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for `localhost` that it has signed itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
               "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def over_tls(
    certificate: tuple[Path, Path], trust: Callable[[], ssl.SSLContext], name: str = "localhost"
) -> Outcome:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def work() -> Outcome:
        async with Stub(first_ms=20, gap_ms=10, tls=context).listening() as url:
            address = replace(Address.parse(url), host=name)
            client = Client(Place(address, "127.0.0.1", trust()), "stub")
            return await client.complete(Order(PROMPT, 3), 0.0)

    return run_virtually(work())


def test_a_certificate_that_is_believed_is_one_for_the_name_that_was_asked_for(
    certificate: tuple[Path, Path],
) -> None:
    def trusting() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(certificate[0]))

    record = over_tls(certificate, trusting).record
    assert (record.error, record.e2el_ms) == ("", pytest.approx(40))
    record = over_tls(certificate, trusting, name="example.com").record
    assert record.error_kind == "tls" and "its certificate is not believed" in record.error
    record = over_tls(certificate, ssl.create_default_context).record
    assert record.error_kind == "tls" and "SSL_CERT_FILE" in record.error


def test_a_server_without_tls_is_told_from_one_that_is_not_believed() -> None:
    async def work() -> Outcome:
        async with Stub().listening() as url:
            address = replace(Address.parse(url), scheme="https")
            client = Client(Place(address, "127.0.0.1", ssl.create_default_context()), "stub")
            return await client.complete(Order(PROMPT, 3), 0.0)

    record = run_virtually(work()).record
    assert record.error_kind == "tls"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("localhost:8080", "http://localhost:8080/v1"),
        ("http://host", "http://host/v1"),
        ("https://host/", "https://host/v1"),
        ("HTTP://Host:80/v1/", "http://host/v1"),
        ("http://h:1/api/v1/chat/completions", "http://h:1/api/v1"),
        ("http://h:1/v1/completions", "http://h:1/v1"),
        ("http://[::1]:8080", "http://[::1]:8080/v1"),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str, found: str) -> None:
    assert str(Address.parse(text)) == found


@pytest.mark.parametrize(
    "text",
    ["", "http://", "ftp://host", "http://host:99999", "http://host:x", "http://host:0",
     "http://user:pass@host", "http://host/?a=1", "http://host/#a", "http://ho st",
     "http://h\nX: y", "http://[::1", "http://хост"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected an address such as"):
        Address.parse(text)


def test_addresses_of_this_machine_are_known() -> None:
    assert Address.parse("localhost:1").is_local and Address.parse("127.0.0.9:1").is_local
    assert not Address.parse("http://192.0.2.1").is_local
    assert not Address.parse("http://no-such-host.invalid").is_local
