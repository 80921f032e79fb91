"""Models for `perplexity` and `compare`, with the progress of their load."""

from __future__ import annotations

from pathlib import Path

from orin_llm.cli.progress import StderrReporter, load_progress, print_note
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
    if not quiet:
        print_note(model.describe()["backend"])
    return model
