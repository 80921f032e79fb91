"""The source `nvml` through the real package, over a stand-in for NVIDIA's library."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from processes import environment, python, run

from orin_llm.device.reading import Reading

pytest.importorskip("pynvml")
SOURCE = Path(__file__).parent / "fakes/nvml/libnvidia-ml.c"
# One line for each step: a reading, or why there is none.
PROGRAM = """
    import json, os, sys
    from orin_llm.device import nvml
    from orin_llm.device.source import SourceUnavailable

    nvml._RETRY_MS = 0
    source = None
    for step in json.loads(sys.argv[1]):
        for name in ("INIT", "REFUSE", "REFUSED"):
            os.environ.pop(f"FAKE_NVML_{name}", None)
        os.environ.update({f"FAKE_NVML_{name}": value for name, value in step.items()})
        try:
            source = source or nvml.Nvml()
            reading = source.read()
            print(json.dumps({"problem": source.problem, "reading": reading.to_json()}))
        except SourceUnavailable as error:
            print(json.dumps({"unavailable": str(error)}))
"""
H200 = {
    "sources": ["nvml"],
    "gpu_percent": 97,
    "gpu_mhz": 1980,
    "emc_mhz": 3201,
    "gpu_memory_used_bytes": 5 << 30,
    "gpu_memory_total_bytes": 150754820096,
    "temperatures_c": {"gpu": 71},
    "rails_w": {"GPU": 612.5},
    "power_w": 612.5,
    "energy_j": pytest.approx(9876543210.123),
    "throttled": ["power-cap", "thermal"],
}
NOTHING = json.loads(json.dumps(Reading(0).to_json()))
DRIVER_NOT_LOADED, NOT_SUPPORTED, GPU_IS_LOST = "9", "3", "15"


@pytest.fixture(scope="session", params=["", "-DOLD", "-DNEW"], ids=["today", "old", "new"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in, as drivers of several ages have it."""
    folder = tmp_path_factory.mktemp("nvml")
    flags = [flag for flag in (request.param,) if flag]
    target = folder / "libnvidia-ml.so.1"
    command = ["cc", "-std=c11", "-shared", "-fPIC", *flags, "-o", str(target), str(SOURCE)]
    subprocess.run(command, check=True)
    return folder


def steps(library: Path | None, *settings: dict[str, str]) -> list[Any]:
    """What the source says when the library is set to each of these in turn."""
    variables = environment(LD_LIBRARY_PATH=str(library or ""))
    done = run(python(PROGRAM, json.dumps(settings)), env=variables)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def values(step: Any) -> dict[str, Any]:
    """The reading without its time."""
    return {**step["reading"], "at_ms": 0}


def test_a_gpu_of_its_own_is_read_with_its_units(library: Path) -> None:
    (step,) = steps(library, {})
    assert values(step) == {**NOTHING, **H200} and step["problem"] == ""


def test_the_gpu_of_a_jetson_that_supports_no_question_is_no_source(library: Path) -> None:
    (step,) = steps(library, {"REFUSE": NOT_SUPPORTED})
    assert step == {"unavailable": "NVML tells nothing about this GPU"}


def test_what_a_gpu_does_not_support_is_missing(library: Path) -> None:
    (step,) = steps(library, {"REFUSED": "Utilization,Memory,Power,Energy,Clock,Reasons"})
    assert values(step) == {**NOTHING, "sources": ["nvml"], "temperatures_c": {"gpu": 71}}


def test_a_driver_that_is_not_loaded_is_told(library: Path) -> None:
    (step,) = steps(library, {"INIT": DRIVER_NOT_LOADED})
    assert step == {"unavailable": "NVML: Driver Not Loaded"}


def test_a_gpu_that_is_lost_is_read_again_when_it_is_back(library: Path) -> None:
    well, lost, unloaded, back = steps(
        library, {}, {"REFUSE": GPU_IS_LOST}, {"INIT": DRIVER_NOT_LOADED}, {}
    )
    assert values(well) == values(back) == {**NOTHING, **H200} and back["problem"] == ""
    assert values(lost) == NOTHING and "tells nothing" in lost["problem"]
    assert values(unloaded) == NOTHING and unloaded["problem"] == "NVML: Driver Not Loaded"


def test_no_library_is_told(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    (step,) = steps(tmp_path, {})
    assert step == {"unavailable": "NVML: NVML Shared Library Not Found"}
