"""Keys and a profile as the tests of profiles make them."""

from __future__ import annotations

from dataclasses import replace

from orin_llm.profiles.key import ProfileKey
from orin_llm.profiles.profile import Profile

ORIN = ProfileKey(
    board="NVIDIA Jetson AGX Orin Developer Kit",
    module="p3701-0005",
    mode="MAXN",
    gpu_units=8,
    emc_cap_mhz=3199,
    gpu="Orin",
    cpu="Cortex-A78AE",
    cores=12,
    model="llama-3-8b",
    fingerprint="ab" * 32,
)
PC = replace(ORIN, board="PC", module=None, mode=None, gpu_units=None, emc_cap_mhz=None, gpu=None)
TUNED = Profile(ORIN, {"chunk_size": 256, "kv_type": "q8_0"}, created="2026-01-02T03:04:05Z")
