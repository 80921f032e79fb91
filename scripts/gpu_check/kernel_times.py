"""How long each kernel takes at the sizes of real models, and what follows for its choices."""

from __future__ import annotations

from dataclasses import asdict

from checking.checkout import python
from checking.steps import Found, StepFailed
from gpu_check.benchmarks import whole_lines
from gpu_check.kernel_figures import choices_text, crossings, suggested_choices
from gpu_check.kernel_module import kernel_module
from gpu_check.machine import device_facts
from gpu_check.steps import Context

_NO_DEVICE = {"multiprocessors": 1, "clock_khz": 1_000_000}  # for a rehearsal


def kernel_times(context: Context) -> Found:
    """The step. Raises StepFailed, with the times that were taken, where not all were."""
    module, environ = kernel_module(context)
    device = device_facts(context) if context.on_gpu else _NO_DEVICE
    work = "full" if context.on_gpu else "tiny"
    done = context.run(python("gpu_check.kernel_child", module, work), "times", environ)
    timings = whole_lines(done.out)
    found: Found = {
        "device": device,
        "timings": timings,
        "crossings": [asdict(crossing) for crossing in crossings(timings)],
        "choices": choices_text(suggested_choices(timings)),
    }
    if not done.well:
        raise StepFailed(f"the times of kernels {done.why()}", found)
    return found
