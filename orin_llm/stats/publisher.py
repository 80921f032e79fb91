"""An engine's side: a socket in the user's folder, and a thread that answers there."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.stats.folder import folders
from orin_llm.stats.server import StatsServer, StatsSource

_CLOSE_S = 1.0  # a thread that a source keeps for longer ends on its own


class StatsPublisher:
    """Publishes what a source says of itself until it is closed or the source is no more.

    The source is not kept alive. Where nothing can be published that is no error: the engine runs.

    Args:
        source: asked for statistics while somebody listens, from a thread of the publisher's own.

    Attributes:
        path: the socket, None where there is none.
        problem: why there is none, else None.
    """

    def __init__(self, source: StatsSource) -> None:
        self.path: Path | None = None
        self.problem: str | None = None
        self._thread: threading.Thread | None = None
        try:
            server = StatsServer(weakref.ref(source))
            # Before there is a socket: a signal may end the program between any two steps.
            self._at_end = weakref.finalize(source, server.stop)
            self._start(server)
        except (OrinError, OSError, RuntimeError) as error:
            self.problem = f"statistics are not published: {error}"

    def _start(self, server: StatsServer) -> None:
        thread = threading.Thread(target=server.run, name="orin-llm-stats", daemon=True)
        try:
            path = server.listen(folders()[0])
            thread.start()
        except (OrinError, OSError, RuntimeError):  # the user may have no more threads
            self._at_end()
            server.close_files()
            raise
        self.path, self._server, self._thread = path, server, thread

    def close(self) -> None:
        """Remove the socket and end the connections. May be called more than once."""
        if self._thread is None:
            return
        self._server.stop()
        self._at_end.detach()
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
