"""Redirects of downloads: what is followed, and who gets to see the token."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path

import pytest
from file_server import Served, Server

from orin_llm.errors import OrinError
from orin_llm.models.reporter import Reporter
from orin_llm.models.sources.http import HttpFile, HttpPolicy, download
from orin_llm.models.sources.redirects import SafeRedirects, is_loopback

FILE = b"GGUF" + os.urandom(200_000)
QUICK = HttpPolicy(pause_s=0.01)


def test_a_redirect_is_followed_and_the_token_stays_with_its_host(
    server: Server, tmp_path: Path
) -> None:
    server.add("/cdn/blob", Served(FILE, drops=[60_000]))
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    url = server.add("/m.gguf", Served(b"", redirect=f"{elsewhere}/cdn/blob"))
    download(
        HttpFile(url, headers={"Authorization": "Bearer secret"}),
        tmp_path / "m.gguf",
        Reporter(),
        QUICK,
    )
    assert (tmp_path / "m.gguf").read_bytes() == FILE
    tokens = [(path, headers.get("Authorization")) for path, headers in server.requests]
    assert tokens == [("/m.gguf", "Bearer secret"), ("/cdn/blob", None)] * 2


def test_a_redirect_on_the_same_host_keeps_the_token(server: Server, tmp_path: Path) -> None:
    server.add("/here/blob", Served(FILE))
    url = server.add("/m.gguf", Served(b"", redirect="/here/blob"))
    download(
        HttpFile(url, headers={"Authorization": "Bearer secret"}),
        tmp_path / "m.gguf",
        Reporter(),
        QUICK,
    )
    assert server.requests[-1][1]["Authorization"] == "Bearer secret"


def redirect(old: str, new: str, code: int = 302) -> urllib.request.Request | None:
    request = urllib.request.Request(old, headers={"Authorization": "Bearer secret"})
    return SafeRedirects().redirect_request(request, None, code, "Found", {}, new)


def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    with pytest.raises(OrinError, match="from https: to http: at b"):
        redirect("https://a/m.gguf", "http://b/m.gguf")


def test_a_redirect_to_another_kind_of_address_is_not_followed() -> None:
    with pytest.raises(OrinError, match="ftp: address"):
        redirect("https://a/m.gguf", "ftp://a/m.gguf")


def test_a_permanent_redirect_308_is_followed() -> None:
    request = redirect("https://a/m.gguf", "https://a/n.gguf", 308)
    assert request is not None and request.full_url == "https://a/n.gguf"
    assert request.get_header("Authorization") == "Bearer secret"


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_is_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", [None, "", "example.org", "10.0.0.1", "localhost.example.org"])
def test_other_machines_are_not_this_one(host: str | None) -> None:
    assert not is_loopback(host)
