"""An engine's side: a socket in the user's folder, and a thread that answers there."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path

from orin_llm.errors import OrinError
from orin_llm.stats.folder import folders, listen
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
            listener, path = listen(folders()[0])
        except (OrinError, OSError) as error:
            self.problem = f"statistics are not published: {error}"
            return
        server = StatsServer(listener, path, weakref.ref(source))
        self._stop = weakref.finalize(source, server.stop)
        thread = threading.Thread(target=server.run, name="orin-llm-stats", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the user may have no more threads
            self._stop()
            server.close_files()
            self.problem = f"statistics are not published: {error}"
            return
        self.path, self._thread = path, thread

    def close(self) -> None:
        """Remove the socket and end the connections. May be called more than once."""
        if self._thread is None:
            return
        self._stop()
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
