"""The process in which kernels run: python worker.py MODULE SOCKET. A sanitizer may end it."""

from __future__ import annotations

import importlib.util
import sys
from multiprocessing.connection import Client


def main(path: str, address: str) -> None:
    spec = importlib.util.spec_from_file_location("orin_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with Client(address, family="AF_UNIX") as connection:
        while True:
            try:
                name, arguments = connection.recv()
            except EOFError:
                return
            try:
                connection.send((True, getattr(module, name)(**arguments)))
            except Exception as error:
                connection.send((False, f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
