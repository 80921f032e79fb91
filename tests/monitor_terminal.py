"""Programs on pseudo-terminals: started, read, ended, and the terminal taken away."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pexpect
from fakes.boards import Machine
from processes import CLI, environment

RESTORED = b"\x1b[?1049l"  # leaves the alternate screen
ESCAPES = re.compile(rb"\x1b\[[?<>=]?[0-9;$]*[A-Za-z]")


class Terminals:
    """Starts `orin-llm monitor`, or another command, each on a terminal of its own.

    What still runs at the end of the block is ended.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[pexpect.spawn[bytes]] = []

    def __enter__(self) -> Terminals:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.close(force=True)

    def __call__(
        self,
        *arguments: str,
        machine: Machine | None = None,
        size: tuple[int, int] = (80, 24),
        command: list[str] | None = None,
        **variables: str,
    ) -> pexpect.spawn[bytes]:
        if machine is not None:
            arguments = (*arguments, "--root", str(machine.root))
            variables = {"PATH": machine.path, **variables}
        program, *before = command or [*CLI, "monitor"]
        child = pexpect.spawn(
            program,
            [*before, *arguments],
            env=plain_environment(self._folder, **variables),
            dimensions=(size[1], size[0]),
            timeout=120,
        )
        self._children.append(child)
        return child


def plain_environment(folder: Path, **variables: str) -> dict[str, str]:
    """Of a user with a UTF-8 locale, and neither configuration nor engines of the real one."""
    values = environment(
        TERM="xterm-256color",
        LC_ALL="C.UTF-8",
        XDG_RUNTIME_DIR=str(folder),
        XDG_CONFIG_HOME=str(folder),
        TMPDIR=str(folder),
    )
    unwanted = ("NO_COLOR", "COLORTERM", "LANG", "LC_CTYPE")
    return {name: value for name, value in values.items() if name not in unwanted} | variables


def see(child: pexpect.spawn[bytes], *facts: str) -> bytes:
    """Read until all of them were written, in whatever order; what was read."""
    seen = b""
    deadline = time.monotonic() + 120
    while any(fact.encode() not in ESCAPES.sub(b"", seen) for fact in facts):
        assert time.monotonic() < deadline, (facts, seen[-4000:])
        try:
            seen += child.read_nonblocking(65536, timeout=1)
        except pexpect.TIMEOUT:
            continue
        except pexpect.EOF:
            raise AssertionError(f"ended without {facts}: {seen!r}") from None
    return seen


def ended(child: pexpect.spawn[bytes]) -> int:
    """The exit code, once the terminal has been given back as it was."""
    child.expect(pexpect.EOF)
    assert RESTORED in child.before
    assert b"\x1b[?25h" in child.before  # the cursor is seen again
    child.close()
    assert child.exitstatus is not None
    return child.exitstatus


def hung_up(child: pexpect.spawn[bytes]) -> int:
    """The exit code, once the terminal is gone."""
    child.ptyproc.fileobj.close()
    deadline = time.monotonic() + 120
    while (found := os.waitpid(child.pid, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline, "it does not end"
        time.sleep(0.02)
    child.ptyproc.terminated = True
    child.closed = child.ptyproc.closed = True
    return os.waitstatus_to_exitcode(found[1])


def quit_by_key(child: pexpect.spawn[bytes]) -> None:
    child.send(b"q")
    assert ended(child) == 0
