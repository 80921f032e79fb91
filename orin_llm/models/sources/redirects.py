"""Following redirects without giving away a token or falling back to an unprotected connection."""

from __future__ import annotations

import ipaddress
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from orin_llm.errors import OrinError


def is_loopback(host: str | None) -> bool:
    """Is it a name or address of this machine?"""
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects from https: to http:, and drops the authorization for another host."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in ("http", "https"):
            raise OrinError(f"{old.hostname} redirects to a {new.scheme}: address; not followed")
        if old.scheme == "https" and new.scheme == "http" and not is_loopback(new.hostname):
            raise OrinError(
                f"{old.hostname} redirects from https: to http: at {new.hostname}, where anyone on "
                "the way could change the file; not followed"
            )
        request = super().redirect_request(
            req, fp, 307 if code == 308 else code, msg, headers, newurl
        )
        if request is not None and (old.scheme, old.netloc) != (new.scheme, new.netloc):
            request.remove_header("Authorization")
        return request

    # Python 3.10 does not know 308.
    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302
