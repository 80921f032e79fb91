"""Steps that tell right from wrong: the build, the tests on this processor, on its GPU."""

from __future__ import annotations

import json
import os
import platform
import time
from typing import Any

from arm64_check.core import programs_run
from arm64_check.parity import PARITY, node_ids, read_report
from arm64_check.steps import CheckFailed
from board_check.target import Target, check, judged
from checking.checkout import BUILD_INFO, ROOT
from checking.steps import Context, Found, NotPossible, StepFailed
from native.toolchain import NATIVE_FLAGS

_MISSING = "source scripts/system_packages.sh; missing_packages"
_SHAPE = "1b"  # the smallest that scripts/gpu_check.sh makes


def build(target: Target, context: Context) -> Found:
    """The step: the module for this machine, as scripts/build.sh makes it."""
    if not (ROOT / ".venv").exists():
        _require_packages(target, context)
    python = {} if os.environ.get("PYTHON") else {"PYTHON": target.python}
    begin = time.monotonic()
    context.need([str(ROOT / "scripts/build.sh"), "test"], environ=python)
    seconds = time.monotonic() - begin
    info = json.loads(context.need([target.python, "-c", BUILD_INFO], "info").out)
    is_right = None
    if target.is_jetson:
        is_right = bool(info["cuda"]) and "87" in str(info["cuda_architectures"])
    wanted = check(
        "the module is built with CUDA for sm_87",
        is_right,
        f"{info['cuda_architectures'] or 'CPU only'}: {info['why']}",
        "ORIN_LLM_CUDA=on scripts/build.sh test says what is missing",
    )
    return judged(f"{seconds:.0f} s, {info['why']}", [wanted], build_info=info, build_s=seconds)


def _require_packages(target: Target, context: Context) -> None:
    environ = {"PYTHON": target.python}
    names = context.need(["bash", "-c", _MISSING], "packages", environ).out.split()
    if names:
        raise StepFailed(
            f"system packages are missing: sudo apt-get install {' '.join(names)}, and then again"
        )


def core(target: Target, context: Context) -> Found:
    """The step: the core's C++ programs, built for this processor. Threads that miss a barrier may
    pass on x86 and in an emulator there, which keep the order of loads and stores; not here."""
    begin = time.monotonic()
    flags = NATIVE_FLAGS.get(platform.machine(), ())
    done = context.need([str(ROOT / "scripts/sanitize.sh"), "for", *flags])
    ran, missed = programs_run(done.out)
    said = f"{len(ran)} programs in {time.monotonic() - begin:.0f} s"
    lacking = ", ".join(missed)
    return judged(
        said, [check("every program has run", not missed, lacking or said, "send the archive")]
    )


def parity(target: Target, context: Context) -> Found:
    """The step: each hook beside its reference on this processor: the tests that
    scripts/arm64_check.sh runs in an emulator."""
    report = context.work / "logs" / f"{context.name}.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "-p", "no:cacheprovider", "--tb=short", "-m", "not gpu")
    done = context.run(
        target.run_module("pytest", *options, f"--junit-xml={report}", *node_ids()),
        environ={"CUDA_VISIBLE_DEVICES": ""},
    )
    if done.timed_out or not report.exists():
        raise StepFailed(f"pytest {done.why()}")
    try:
        found = read_report(report, PARITY)
    except CheckFailed as failure:
        raise StepFailed(str(failure)) from None
    if not done.well:
        raise StepFailed(f"pytest {done.why()}")
    return judged(f"{sum(hook['passed'] for hook in found.values())} passed", [], tests=found)


def _of_tests(found: dict[str, Any], to_do: str) -> Found:
    """The verdict on counts of tests."""
    failed, skipped = found["failed"], found["skipped"]
    passed = found["tests"] - failed - skipped
    said = f"{passed} passed, {failed} failed, {skipped} skipped"
    names = ", ".join(found["failures"][:5])
    return judged(said, [check("tests pass", passed > 0 and not failed, names or said, to_do)],
                  tests=found)  # fmt: skip


def gpu_tests(kind: str, target: Target, context: Context) -> Found:
    """Steps of scripts/gpu_check.sh: `kernels` or `engine`."""
    entry = _gpu_check(target, context, "build", kind)
    result = entry["result"]
    if "tests" not in result:
        raise StepFailed(entry.get("error", entry["status"]))
    return _of_tests(result, f"scripts/gpu_check.sh --only {kind} shows them; send the archive")


def greedy(target: Target, context: Context) -> Found:
    """The step: text that the GPU writes beside the CPU's."""
    entry = _gpu_check(target, context, "build", f"models.{_SHAPE}", "greedy")
    result = entry["result"]
    if "agrees" not in result:
        raise StepFailed(entry.get("error", entry["status"]))
    said = f"{result['equal']} of {result['prompts']} texts of {result['tokens']} tokens equal"
    agrees = check("texts are the CPU's, or part at ties", result["agrees"],
                   f"{said}, {result['differences']}", "send the archive")  # fmt: skip
    return judged(said, [agrees], greedy=result)


def _gpu_check(target: Target, context: Context, *steps: str) -> dict[str, Any]:
    """Run steps of it, and give the last one's entry of its record."""
    if not target.has_gpu:
        raise NotPossible("no NVIDIA GPU is here")
    out = target.collected / f"gpu_check.{context.name}.json"
    out.unlink(missing_ok=True)  # what an earlier call found is not this one's
    minutes = max(0.1, (context.deadline - time.monotonic() - 5) / 60)
    command = [str(ROOT / "scripts/gpu_check.sh"), "--out", str(out), "--models", _SHAPE]
    command += ["--minutes", f"{minutes:.1f}"]
    for step in steps:
        command += ["--only", step]
    done = context.run(command)
    try:
        entry: dict[str, Any] = json.loads(out.read_text())["steps"][steps[-1]]
    except (OSError, ValueError, KeyError):
        raise StepFailed(f"scripts/gpu_check.sh {done.why()}") from None
    return entry
