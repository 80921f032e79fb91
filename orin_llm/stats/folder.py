"""The folder of the user's sockets, and the sockets in it: made, found, and swept away."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from orin_llm.errors import OrinError

MAX_PATH_BYTES = 107  # sun_path of Linux, without its NUL
BACKLOG = 16
_LOCK_S = 2.0  # who holds the folder's lock does so for a few system calls

# Where systemd makes the folders that XDG_RUNTIME_DIR names.
_LOGINS = Path("/run/user")

_NAME = re.compile(r"\d+-\d+\.sock")


def folders() -> list[Path]:
    """Where engines of this user publish: the first is this process's own folder.

    `orin-llm` in XDG_RUNTIME_DIR, if that is the user's; `orin-llm-UID` below the temporary folder.
    A service may run without the variable that a login has: who looks for engines looks in both,
    and without the variable also where a login has it.
    """
    user = os.geteuid()
    temporary = Path(tempfile.gettempdir()) / f"orin-llm-{user}"
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    # sudo keeps the variable of who called it; what root made there would be in the user's way
    if os.path.isabs(base) and _belongs_to(Path(base), user):
        return [Path(base) / "orin-llm", temporary]
    login = _LOGINS / str(user)
    return [temporary, login / "orin-llm"] if _belongs_to(login, user) else [temporary]


def _belongs_to(folder: Path, user: int) -> bool:
    try:
        return folder.stat().st_uid == user
    except OSError:
        return False


def check_folder(folder: Path) -> None:
    """OrinError unless the folder is the user's own, and no link. OSError where there is none."""
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise OrinError(f"{folder} is no folder: remove it")
    if facts.st_uid != os.geteuid():
        raise OrinError(
            f"{folder} belongs to user {facts.st_uid}, not to {os.geteuid()}: remove it, or set "
            "XDG_RUNTIME_DIR to a folder of your own"
        )


@contextmanager
def unused_path(folder: Path) -> Iterator[Path]:
    """A path `PID-N.sock` in the folder, free for a socket within the block.

    The folder is made if it is not there: only the user can open it. Sockets that nobody listens
    to any more are removed.

    Raises:
        OrinError, OSError: the folder cannot be used, or the path is too long for a socket.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_folder(folder)
    folder.chmod(0o700)
    with _locked(folder):
        for path in sockets(folder):
            if _is_dead(path):
                path.unlink(missing_ok=True)
        path = _first_unused(folder)
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            raise OrinError(
                f"{path} is too long for a socket: at most {MAX_PATH_BYTES} bytes; set "
                "XDG_RUNTIME_DIR to a shorter one"
            )
        yield path


def _first_unused(folder: Path) -> Path:
    for number in count():
        path = folder / f"{os.getpid()}-{number}.sock"
        if not os.path.lexists(path):
            break
    return path


def listen(path: Path) -> socket.socket:
    """A listening socket that only the user can open. OSError: there can be none."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fsencode(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        path.unlink(missing_ok=True)
        raise
    return listener


def sockets(folder: Path) -> list[Path]:
    """The sockets in the folder, whoever listens to them."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def own_sockets() -> list[Path]:
    """All of this user, whoever listens to them; none of folders that cannot be used."""
    found: list[Path] = []
    for folder in folders():
        with suppress(OSError, OrinError):
            check_folder(folder)
            found += sockets(folder)
    return found


def connect(path: Path, timeout_s: float) -> socket.socket:
    """A connection to the socket. Raises OSError: nobody listens, or nobody answers in time."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(os.fsencode(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _is_dead(path: Path) -> bool:
    """Whether nobody listens. Under the lock: else one that is bound would not listen yet."""
    try:
        connect(path, timeout_s=0).close()
    except ConnectionRefusedError:
        return True
    except OSError:  # it has more callers than it can take, or is no socket
        return False
    return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. OrinError: someone else has held it for too long."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    raise
                if time.monotonic() > deadline:
                    raise OrinError(f"another process has locked {folder}") from error
                time.sleep(0.005)
        yield
    finally:
        os.close(number)
