"""Models behind an `https:` address (and `http:`, with a warning unless it is this machine)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from orin_llm.gguf import split
from orin_llm.models import names
from orin_llm.models.reference import UrlReference
from orin_llm.models.reporter import Reporter
from orin_llm.models.sources import http
from orin_llm.models.sources.redirects import is_loopback
from orin_llm.models.sources.source import WantedFile


class UrlSource:
    """A .gguf file, or the first part of one, given by its address. Nothing is fetched yet.

    `sha256` is the checksum that the user gave for a file that is whole.
    """

    licence = ""

    def __init__(self, wanted: UrlReference, sha256: str | None) -> None:
        self._url = urlsplit(wanted.url)
        self.reference = str(wanted)
        self.default_name = names.derive_from_url(wanted.url)
        last = unquote(self._url.path).rpartition("/")[2]
        parts = split.parts_of(last)
        if len(parts) > 1:
            self.files = tuple(WantedFile(name) for name in parts)
        else:
            self.files = (WantedFile(f"{self.default_name}.gguf", sha256=sha256),)

    def fetch(self, file: WantedFile, target: Path, reporter: Reporter) -> None:
        """Download `file`, continuing what is there."""
        if self._url.scheme == "http" and not is_loopback(self._url.hostname) and not file.sha256:
            reporter.message(
                f"warning: {self._url.hostname} is asked without protection (http:), so anyone on "
                "the way could change the file; --sha256 would tell"
            )
        path = self._url.path
        if len(self.files) > 1:
            path = f"{path.rpartition('/')[0]}/{file.name}"
        url = urlunsplit(self._url._replace(path=path, fragment=""))
        http.download(http.HttpFile(url, verified=file.sha256 is not None), target, reporter)
