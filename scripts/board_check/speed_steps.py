"""Steps that measure, each with lines of tegrastats as they are under that load."""

from __future__ import annotations

import json
import shutil
from typing import Any

from board_check.target import Target, check, judged
from board_check.tegrastats import recording, what_lines_say
from checking.checkout import default_model
from checking.steps import Context, Found, NotPossible, StepFailed
from orin_llm.host.memory import read_memory
from orin_llm.models.names import DEFAULT_MODEL

# Of a model of random weights: its shape, and bytes of disk and of memory that it needs.
_SHAPES = (("llama-3-8b", 6 << 30, 12 << 30), ("llama-3.2-1b", 2 << 30, 4 << 30))
_ON_GPU = ("-p", "512", "-n", "128", "-r", "3")
_ON_CPU = ("-p", "64", "-n", "16", "-r", "1")
_DEEP = ("-p", "512", "-n", "64", "-d", "0,2048", "-r", "2")


def model(target: Target, context: Context) -> Found:
    """The step: the default model, fetched where it is not there yet."""
    if (path := default_model()) is None:
        context.need(target.run_module("orin_llm.cli", "models", "pull", DEFAULT_MODEL))
        path = default_model()
    if path is None:
        raise StepFailed(
            f"{DEFAULT_MODEL} is not in the store: orin-llm models pull {DEFAULT_MODEL}"
        )
    return judged(f"{DEFAULT_MODEL}, {path.stat().st_size / 1e6:.0f} MB", [])


def bench(target: Target, context: Context) -> Found:
    """The step: TTFT and TPOT of the default model."""
    sizes = _ON_GPU if target.has_gpu else _ON_CPU
    return _measured(DEFAULT_MODEL, target, context, *sizes)


def large(target: Target, context: Context) -> Found:
    """The step: the owner's model, or one of random weights with a real one's shape."""
    sizes = _DEEP if target.has_gpu else _ON_CPU
    if target.model:
        return _measured(target.model, target, context, *sizes)
    if not target.has_gpu:
        raise NotPossible("no NVIDIA GPU is here: --model FILE measures one on the CPU")
    shape = _shape_that_fits(target)
    path = target.folder / "models" / f"{shape}.Q4_K_M.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        making = path.with_name(f"{path.name}.making")
        synth = ("models", "synth", "--shape", shape, "--force", "-q", str(making))
        context.need(target.run_module("orin_llm.cli", *synth), "synth")
        making.rename(path)
    found = _measured(str(path), target, context, *sizes)
    shutil.rmtree(path.parent)  # gigabytes
    return found


def _shape_that_fits(target: Target) -> str:
    free = shutil.disk_usage(target.folder).free
    available = read_memory(target.root).available
    for shape, disk, memory in _SHAPES:
        if free > disk and available > memory:
            return shape
    raise NotPossible(
        f"{free / 1e9:.1f} GB of disk and {available / 1e9:.1f} GB of memory are free: at least"
        f" {_SHAPES[-1][1] / 1e9:.0f} and {_SHAPES[-1][2] / 1e9:.0f} are needed, or --model FILE"
    )


def _measured(name: str, target: Target, context: Context, *sizes: str) -> Found:
    command = target.orin_llm(
        "bench", "single", "--no-profile", "-m", name, *sizes, "-o", "json", "-q"
    )
    lines = target.collected / f"tegrastats.{context.name}.txt"
    load: dict[str, Any] = {}
    with recording(target, lines) as is_recorded:
        done = context.need(command)
    report: dict[str, Any] = json.loads(done.out)
    device = report["machine"]["device"]
    checks = [
        check("the model answers on the GPU", device != "cpu" if target.has_gpu else None, device,
              "orin-llm doctor says why the GPU is not used"),
    ]  # fmt: skip
    said = "; ".join(map(_speed, report["results"]))
    if is_recorded:
        load = what_lines_say(target, lines, under_load=True)
        said, checks = f"{said}; at most {load.pop('said')}", checks + load.pop("checks")
    return judged(said, checks, **load)


def _speed(result: dict[str, Any]) -> str:
    figures = result["figures"]
    ttft, tpot = (figures[name]["median"] for name in ("ttft_ms", "tpot_ms"))
    return f"{result['label']}: TTFT {ttft:.1f} ms, TPOT {tpot:.2f} ms"


def trace(target: Target, context: Context) -> Found:
    """The step: one short run, moment by moment."""
    out = target.collected / "trace.json"
    sizes = ("-p", "256", "-n", "32") if target.has_gpu else ("-p", "32", "-n", "8")
    arguments = ("trace", "single", "--no-profile", "-m", DEFAULT_MODEL, *sizes, "-o", str(out))
    context.need(target.orin_llm(*arguments, "--force", "--json"))
    return judged(f"{out.stat().st_size / 1e3:.0f} kB", [])
