"""Which GPU the tests of tests/gpu run on: ORIN_TEST_GPU=emulated or real; without it, on none.

Imported before anything that loads the extension module, which is another one where the GPU is
emulated.
"""

from __future__ import annotations

import os

from gpu.emulated import install

KIND = os.environ.get("ORIN_TEST_GPU", "")
assert KIND in ("", "emulated", "real"), f"ORIN_TEST_GPU={KIND}: expected emulated or real"
if KIND == "emulated":
    install()
