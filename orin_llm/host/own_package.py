"""Python processes that import this package, wherever they are run."""

from __future__ import annotations

import os
from pathlib import Path


def importing_environment() -> dict[str, str]:
    """This process's environment, with the package on the path. A working directory comes before
    that path: run in one that holds no checkout.
    """
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}
