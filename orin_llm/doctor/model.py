"""The model: does it fit, and how long does it take to read?"""

from __future__ import annotations

from collections.abc import Iterator

from orin_llm.doctor.finding import Finding
from orin_llm.doctor.machine import Machine
from orin_llm.host.units import size_text

SLOW_LOAD_S = 20.0
# A drive on one lane of PCIe 3 gives 0.9 GB/s, and those on the board's four lanes several times
# that. eMMC reads some 0.3 GB/s.
LEAST_NVME_BYTES_PER_S = 0.9e9
_LEAST_MEASURED_BYTES = 64 << 20  # below, the rate is that of the first requests
_DRIVES = {"nvme": "NVMe", "mmc": "eMMC or SD card"}


def fits(machine: Machine) -> Iterator[Finding]:
    """Weights, activations and the KV cache of one sequence fit, and 10 % stay free."""
    model = machine.model
    if model is None:
        return
    if model.problem:
        yield Finding("model", "hurts", model.problem)
        return
    fit = model.fit
    if fit is None:
        return
    if machine.memory.total == 0:
        yield Finding("model", "unknown", "/proc/meminfo does not tell what it could have")
        return
    kv = fit.kv + fit.logits
    needs = (
        f"{size_text(fit.weights)} of weights, {size_text(fit.activations)} of activations, "
        f"{size_text(kv)} for a sequence of {fit.ctx} tokens"
    )
    if fit.fits:
        many = "1 sequence" if fit.sequences == 1 else f"{fit.sequences} sequences"
        yield Finding("model", "ok", f"{model.name} fits with {many} of {fit.ctx} tokens")
        return
    short = kv - fit.left
    yield Finding(
        "model",
        "hurts",
        f"{model.name} does not fit, {size_text(short)} are short: {needs}",
        expected=f"at most {size_text(fit.usable)}, 90 % of the {fit.budget.place}",
        fix="a smaller --ctx-size, --kv-type q8_0, a smaller quantization, or end other programs",
    )


def disk(machine: Machine) -> Iterator[Finding]:
    """The drive. It delays the start of the model and no token, so it never `hurts`."""
    model = machine.model
    if model is None or model.problem or model.fit is None:
        return
    if model.disk is None:
        if model.disk_problem:
            yield Finding("disk", "unknown", model.disk_problem)
        return
    rate = model.disk.bytes_per_s
    seconds = model.fit.weights / max(1.0, rate)
    found = f"{rate / 1e9:.2f} GB/s: {model.name} is read in {seconds:.1f} s"
    if drive := _DRIVES.get(model.drive):
        found += f" ({drive})"
    if not model.disk.direct:
        found += ", by way of the page cache"
    slow_nvme = (
        model.drive == "nvme"
        and model.disk.bytes >= _LEAST_MEASURED_BYTES
        and rate < LEAST_NVME_BYTES_PER_S
    )
    if slow_nvme:
        yield Finding(
            "disk",
            "warning",
            found,
            expected=f"{LEAST_NVME_BYTES_PER_S / 1e9:.1f} GB/s or more of an NVMe drive",
            fix="see whether it is hot, full, or on fewer lanes than it has (lspci -vv: LnkSta)",
        )
    elif seconds > SLOW_LOAD_S:
        yield Finding(
            "disk",
            "warning",
            found,
            expected=f"at most {SLOW_LOAD_S:.0f} s",
            fix="keep models on an NVMe drive: ORIN_LLM_MODELS names the folder",
        )
    else:
        yield Finding("disk", "ok", found)
