"""Steps that tell right from wrong: the build, the tests, the sanitizers."""

from __future__ import annotations

import json
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from checking.checkout import BUILD_INFO, ROOT, default_model, python
from checking.steps import Found, StepFailed
from gpu_check.steps import Context
from orin_llm.models.names import DEFAULT_MODEL

# Left out under the sanitizers, which take many times as long: what draws hundreds of inputs, and
# what has large ones.
SLOW_TESTS = ("any", "large", "plain_float32", "sequences_become", "depend_on", "order")
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: .*\()(\d+) error")


def build(context: Context) -> Found:
    """Build for this GPU; on the CPU, only say what was built before."""
    if context.on_gpu:
        context.need(python("native.module"), environ={"ORIN_LLM_CUDA": "on"})
    info = json.loads(context.need([sys.executable, "-c", BUILD_INFO], "info").out)
    if context.on_gpu and not info["cuda"]:
        raise StepFailed(f"the module that is imported was built without CUDA: {info['why']}")
    return {"build_info": info}


def kernels(context: Context) -> Found:
    """Each kernel on the GPU against its reference."""
    return pytest(context, "-m", "gpu", *kernel_tests())


def kernel_tests() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/test_kernel_*.py"))


def engine_tests(context: Context) -> Found:
    """Whole engines on the GPU; those with the default model only where it has been pulled."""
    left_out = [] if default_model() else ["-k", f"not {DEFAULT_MODEL}"]
    found = pytest(context, "tests/gpu", *left_out, environ={"ORIN_TEST_GPU": "real"})
    return {**found, "left_out": left_out[1:]}


def pytest(context: Context, *arguments: str, environ: dict[str, str] | None = None) -> Found:
    """Run tests. Raises StepFailed, with the counts, where not all pass or none runs."""
    report = context.work / "logs" / f"{context.name}.xml"
    report.unlink(missing_ok=True)
    done = context.run(
        python("pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *arguments),
        environ=environ,
    )
    if not report.exists():
        raise StepFailed(f"pytest {done.why()}")
    found = read_junit(report)
    if not done.well:
        raise StepFailed(f"{found['failed']} of {found['tests']} tests failed", found)
    if found["tests"] == found["skipped"]:
        raise StepFailed("no test ran", found)
    return found


def read_junit(path: Path) -> Found:
    """Counts of tests, and the names of those that failed."""
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {"tests": len(cases), "failed": len(failed), "skipped": skipped, "failures": failed}


def sanitizer(tool: str, context: Context) -> Found:
    """The kernels' tests of small shapes under a tool of compute-sanitizer."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        raise StepFailed("no compute-sanitizer on PATH: it comes with the CUDA toolkit")
    command = [program, "--tool", tool, "--target-processes", "all", "--error-exitcode", "99"]
    slow = " or ".join(SLOW_TESTS)
    tests = python("pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "-k", f"not ({slow})")
    done = context.run([*command, *tests, *kernel_tests()])
    counts = [int(count) for count in _SUMMARY.findall(done.out + done.err)]
    errors = sum(counts)
    found: Found = {"errors": errors, "processes": len(counts)}
    if errors:
        raise StepFailed(f"{tool} found {errors} errors: {done.why()}", found)
    if not done.well or not counts:
        raise StepFailed(f"{tool} has not come to its summary: {done.why()}", found)
    return found
