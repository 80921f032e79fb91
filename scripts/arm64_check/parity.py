"""Each hook beside its reference, under the emulated Python: the tests that say so, as they are."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arm64_check.steps import WORK, CheckFailed, Emulated, Found
from native.toolchain import jobs

# What is held to a reference -> the files in tests/ that do it, or one test of a file whose others
# run the default model for minutes; `greedy` holds that.
PARITY: Mapping[str, Sequence[str]] = {
    "graphs": ("test_graph_edit", "test_custom_op_dispatch"),
    "RoPE": ("test_rope_table", "test_rope_store_match", "test_rope_session"),
    "pages and attention": (
        "test_paged_attention",
        "test_engine_paged_models",
        "test_engine_paged_windows",
        "test_quality_windows",
        "test_quality_golden::test_float_weights_have_the_tools_perplexity",
    ),
    "sampling": ("test_sampling", "test_sampling_draws", "test_sampling_digests"),
    "KV cache": ("test_kv_storage", "test_kv_types"),
    "loader": ("test_loader_load", "test_loader_reader", "test_loader_not_finite"),
    "imatrix": ("test_imatrix_collect", "test_imatrix_resume"),
    "quantizers": ("test_quantize_digests",),
}


def parity(machine: Emulated) -> Found:
    """The step: figures by hook."""
    report = WORK / "parity.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(jobs()))
    done = machine.run([*pytest, f"--junit-xml={report}", *node_ids()], check=False)
    said = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-6:])
    end = f"pytest ended by exit status {done.returncode}"
    if not report.exists():
        raise CheckFailed(f"{end} and reports nothing:\n  {said}")
    found = read_report(report, PARITY)
    if done.returncode != 0:
        raise CheckFailed(f"{end}:\n  {said}")
    return found


def node_ids() -> list[str]:
    """The tests of the table as pytest takes them."""
    named = [entry.split("::") for entries in PARITY.values() for entry in entries]
    return ["::".join([f"tests/{file}.py", *test]) for file, *test in named]


def read_report(path: Path, parity: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Passed and skipped tests of each hook, these by their reason.

    Raises:
        CheckFailed: tests have failed, or none of a file has run.
    """
    passed: Counter[str] = Counter()
    skipped: defaultdict[str, Counter[str]] = defaultdict(Counter)
    failed = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        file = (case.get("classname") or case.get("name") or "").rpartition(".")[2]
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{file}.py::{case.get('name')}")
        elif (skip := case.find("skipped")) is not None:
            skipped[file][skip.get("message") or "no reason"] += 1
        else:
            passed[file] += 1
    of_hook = {
        hook: [entry.partition("::")[0] for entry in entries] for hook, entries in parity.items()
    }
    idle = [file for files in of_hook.values() for file in files if not passed[file]]
    if failed:
        raise CheckFailed("\n  ".join([f"{len(failed)} tests failed on Arm:", *failed]))
    if idle:
        raise CheckFailed(f"no test of these files has run: {', '.join(idle)}")
    return {
        hook: {
            "passed": sum(passed[file] for file in files),
            "skipped": dict(sum((skipped[file] for file in files), Counter())),
        }
        for hook, files in of_hook.items()
    }
