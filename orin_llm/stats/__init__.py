"""Statistics of running engines: published on a Unix socket, and read from there.

An engine has a StatsPublisher; tools find engines with `running_engines` and read with `attach`.
docs/statistics.md gives the protocol.
"""

from orin_llm.stats.client import Attachment, RunningEngine, attach, running_engines
from orin_llm.stats.publisher import StatsPublisher

__all__ = ["Attachment", "RunningEngine", "StatsPublisher", "attach", "running_engines"]
