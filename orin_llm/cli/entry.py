"""Where the program starts."""

from __future__ import annotations

import signal


def start() -> None:
    """Entry point of the installed script. Ctrl-C while modules load ends it without a word."""
    python_handler = signal.getsignal(signal.SIGINT)
    if python_handler is signal.default_int_handler:  # else the caller wants it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from orin_llm.cli.main import main

    signal.signal(signal.SIGINT, python_handler)
    main()
