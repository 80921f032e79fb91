"""Errors of products against float64, ours beside those of llama.cpp's kernels."""

from __future__ import annotations

import shutil

from checking.checkout import python
from checking.steps import Found, StepFailed
from gpu_check.benchmarks import whole_lines
from gpu_check.kernel_module import kernel_module
from gpu_check.steps import Context


def errors(context: Context) -> Found:
    """The step: each type of weights at several numbers of tokens, by each form that covers it.

    Raises StepFailed, with the errors that were found, where a kernel fails.
    """
    module, environ = kernel_module(context)
    folder = context.work / "errors"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    device = "gpu" if context.on_gpu else "cpu"
    context.need(python("gpu_check.errors_child", "stock", str(folder), device), "stock")
    done = context.run(
        python("gpu_check.errors_child", "ours", str(folder), module), "ours", environ
    )
    found: Found = {"errors": whole_lines(done.out)}
    if not done.well:
        raise StepFailed(f"our kernels {done.why()}", found)
    shutil.rmtree(folder)
    return found
