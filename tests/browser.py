"""Pages in a real browser, where there is one: what it makes of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


def ask(page: str, expression: str, folder: Path, *, width: int = 1100, dark: bool = False) -> Any:
    """The value of a JavaScript expression in a page that is shown.

    Skips the test where there is no browser. The page's policy, which lets no script run, is
    taken out of the copy that is asked.
    """
    script = f"document.title = 'found ' + JSON.stringify({expression})"
    asking = _POLICY.sub("", page).replace("</body>", f"<script>{script}</script></body>")
    found = re.search(r"<title>found (.*?)</title>", dom(asking, folder, width=width, dark=dark))
    assert found, "the page did not answer"
    return json.loads(found[1])


def dom(page: str, folder: Path, *, width: int = 1100, dark: bool = False) -> str:
    """The page as the browser has it after it was shown."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        _browser(), "--headless", "--no-sandbox", "--disable-gpu",
        "--disable-background-networking", f"--user-data-dir={folder / 'browser'}",
        f"--window-size={width},900",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return shown.stdout


def _browser() -> str:
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium is installed")
