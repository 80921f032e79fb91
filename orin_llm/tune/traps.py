"""What keeps a machine from being worth tuning: settings found now would be for its worse self."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orin_llm.doctor.finding import Finding

_SLOWER = "what is best is another thing with all of the GPU, and is not picked up then"
_STARVED = "decoding waits for the memory: what is best is another thing at its full clock"
_OTHER_DEVICE = "the settings would be the processor's, not the GPU's"
_UNSTEADY = "the clocks change while it is measured, and chance decides"
# By the doctor's checks.
_MEANINGS = {
    "power mode": _SLOWER,
    "GPU units": _SLOWER,
    "GPU clock": _SLOWER,
    "memory cap": _STARVED,
    "firmware's cap": _STARVED,
    "memory clock": _STARVED,
    "GPU": _OTHER_DEVICE,
    "CUDA driver": _OTHER_DEVICE,
    "CUDA code": _OTHER_DEVICE,
    "binary code": _OTHER_DEVICE,
    "temperature": _UNSTEADY,
    "throttling": _UNSTEADY,
    "over-current": _UNSTEADY,
    "build": "",
}


@dataclass(frozen=True)
class Trap:
    """A finding of the doctor that hurts, and what it means for settings that are tuned now."""

    finding: Finding
    meaning: str

    @property
    def text(self) -> str:
        """`power mode: MODE_30W (…); expected MAXN. What it means. To do: …`."""
        found = self.finding
        text = f"{found.check}: {found.found}"
        text += f"; expected: {found.expected}" if found.expected else ""
        text += f". Tuned now, {self.meaning}" if self.meaning else ""
        return text + (f". To do: {found.fix}" if found.fix else "")


def traps(findings: Iterable[Finding], *, on_gpu: bool) -> list[Trap]:
    """Those of the findings that make tuning a mistake, the worst first.

    Args:
        on_gpu: a GPU is to compute, if there is one.
    """
    return [
        Trap(finding, _MEANINGS[finding.check])
        for finding in findings
        if finding.level in ("missing", "hurts") and finding.check in _MEANINGS
        if on_gpu or _MEANINGS[finding.check] != _OTHER_DEVICE
    ]
