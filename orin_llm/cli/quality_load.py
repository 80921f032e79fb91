"""Models for `perplexity` and `compare`, with the progress of their load."""

from __future__ import annotations

import sys
from pathlib import Path

from orin_llm.cli.progress import StderrReporter, load_progress
from orin_llm.cli.render import visible
from orin_llm.engine import EngineConfig
from orin_llm.quality.window_logits import WindowLogits


def open_model(
    path: Path,
    config: EngineConfig,
    report: StderrReporter,
    *,
    quiet: bool,
    beside: WindowLogits | None = None,
) -> WindowLogits:
    """Load it; what does not run as it was asked for is a note on stderr."""
    model = WindowLogits(path, config, load_progress(path, report), beside)
    backend = model.describe()["backend"]
    if not quiet and "note" in backend:
        print(visible(f"note: {backend['note']}"), file=sys.stderr)
    return model
