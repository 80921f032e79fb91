#!/usr/bin/env python3
"""Measure what quantizing costs in quality: weights and KV cache, as tables in Markdown on stdout.

    scripts/quality_table.py [--model smollm2] [--work build/quality] [--windows N] [--threads N]

The model is widened so that K-quants fit its rows, and dequantized to F16: that is the baseline.
Its importance matrix is collected over the calibration text that ships; all are judged by the
evaluation text. Each step is a command of orin-llm, named on stderr. What it made is kept in the
work folder (1.9 GB for the default model, most of it the baseline's log-probabilities), and a run
that was stopped goes on there; another model or other windows need another folder.

Exit status: 1 where a bound is not kept that docs/quality.md promises.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from orin_llm.gguf.footprint import kv_bytes_per_token
from orin_llm.gguf.header import read_model_header
from orin_llm.host.own_package import importing_environment

_COLUMNS = "Perplexity | Of the baseline's | KL divergence | Same likeliest token"

KV_TYPES = ("q8_0", "q8_0:q4_0", "q4_0:q8_0", "q4_0")
MOST_Q4_K_M = 1.2  # × the baseline's perplexity
MOST_KV_CHANGE = {"q8_0": 0.002, "q4_0": 0.03}


@dataclass(frozen=True)
class Row:
    """A variant beside the baseline: `said` is what `compare --json` says."""

    name: str
    note: str
    said: dict[str, Any]

    @property
    def ratio(self) -> float:
        """Its perplexity over the baseline's."""
        return float(self.said["ppl_ratio"])


class Work:
    """Runs commands whose results are kept in a folder; what is there is not made again."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self.folder = folder
        self.options = options
        folder.mkdir(parents=True, exist_ok=True)

    def make(self, name: str, *command: str, goes_on: bool = False) -> Path:
        """The file `name`, which the command writes; "{}" in the command is its path.

        goes_on: a command that was stopped has left a file that it takes up with --resume.
        """
        path, unfinished = self.folder / name, self.folder / f"unfinished.{name}"
        if not path.exists():
            command_line = [part.replace("{}", str(unfinished)) for part in command]
            if goes_on and unfinished.exists():
                command_line.append("--resume")
            else:
                unfinished.unlink(missing_ok=True)
            _run(command_line)
            unfinished.rename(path)
        return path

    def measure(self, name: str, *command: str) -> dict[str, Any]:
        """What the command says with --json, kept as `name`.json."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            said = _run([*command, *self.options, "--json"])
            path.write_text(said, encoding="utf-8")
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="smollm2", help="a llama model (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "quality", metavar="FOLDER")
    parser.add_argument("--windows", type=int, help="of each text; all if not given")
    parser.add_argument("--threads", type=int, default=0)
    given = parser.parse_args()
    threads = ["--threads", str(given.threads)]
    windows = [] if given.windows is None else ["--windows", str(given.windows)]
    work = Work(given.work, threads)

    wide = work.make("wide.gguf", "models", "widen", given.model, "{}")
    base = work.make("F16.gguf", "quantize", str(wide), "{}", "F16", "--allow-requantize", *threads)
    collect = ("imatrix", str(base), "-o", "{}", *threads, *windows)
    matrix = work.make("imatrix.gguf", *collect, goes_on=True)
    quantize = ("quantize", str(base), "{}", "Q4_K_M", *threads)
    plain = work.make("Q4_K_M.gguf", *quantize)
    weighted = work.make("Q4_K_M.imatrix.gguf", *quantize, "--imatrix", str(matrix))

    logits = given.work / "F16.logits"
    save = ["--save-logits", str(logits), "--force"]
    baseline = work.measure("F16", "perplexity", str(base), *windows, *save)

    def compare(name: str, note: str, model: Path, *flags: str) -> Row:
        command = ("compare", str(model), "--logits", str(logits), *flags)
        return Row(name, note, work.measure(note.replace(":", "-"), *command))

    weights = [
        compare("Q4_K_M", "Q4_K_M", plain),
        compare("Q4_K_M, importance matrix", "Q4_K_M.imatrix", weighted),
    ]
    caches = [compare(kind, f"kv.{kind}", base, "--kv-type", kind) for kind in KV_TYPES]
    _print_tables(baseline, base, (plain, weighted), weights, caches)
    broken = _broken_bounds(weights, caches)
    for line in broken:
        print(f"not kept: {line}", file=sys.stderr)
    return 1 if broken else 0


def _run(arguments: Sequence[str]) -> str:
    print("orin-llm", *arguments, file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "orin_llm.cli", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=importing_environment())
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def _print_tables(
    baseline: dict[str, Any],
    base: Path,
    files: Sequence[Path],
    weights: Sequence[Row],
    caches: Sequence[Row],
) -> None:
    print(f"{baseline['windows']} windows of {baseline['window_tokens']} tokens, of which")
    print(f"{baseline['scored_tokens']} tokens count.\n")
    ppl = f"{baseline['ppl']:.3f} ± {baseline['ppl_uncertainty']:.3f}"
    print(f"| Weights | File | {_COLUMNS} |")
    print("|---|---|---|---|---|---|")
    print(f"| F16 (baseline) | {_megabytes(base)} | {ppl} | 1 | 0 | 100 % |")
    for row, file in zip(weights, files, strict=True):
        print(f"| {row.name} | {_megabytes(file)} | {_figures(row)} |")
    header = read_model_header(base)
    print(f"\n| KV cache (keys:values) | Bytes a token | {_COLUMNS} |")
    print("|---|---|---|---|---|---|")
    print(f"| f16 | {kv_bytes_per_token(header)} | {ppl} | 1 | 0 | 100 % |")
    for row in caches:
        print(f"| {row.name} | {kv_bytes_per_token(header, row.name)} | {_figures(row)} |")


def _figures(row: Row) -> str:
    said, model = row.said, row.said["model"]
    return " | ".join(
        (
            f"{model['ppl']:.3f} ± {model['ppl_uncertainty']:.3f}",
            f"{said['ppl_ratio']:.4f} ± {said['ppl_ratio_uncertainty']:.4f}",
            f"{said['kl_divergence']['mean']:.4f}",
            f"{100 * said['same_top']:.1f} ± {100 * said['same_top_uncertainty']:.1f} %",
        )
    )


def _megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def _broken_bounds(weights: Sequence[Row], caches: Sequence[Row]) -> list[str]:
    plain, weighted = weights
    broken = []
    if weighted.ratio > MOST_Q4_K_M:
        broken.append(f"Q4_K_M has {weighted.ratio:.4f} × the perplexity, at most {MOST_Q4_K_M}")
    if weighted.ratio > plain.ratio:
        broken.append("Q4_K_M is worse with an importance matrix than without")
    for row in caches:
        most = MOST_KV_CHANGE.get(row.name)
        if most is not None and abs(row.ratio - 1) >= most:
            broken.append(
                f"KV {row.name} changes perplexity by {row.ratio - 1:+.2%}, at most {most:.1%}"
            )
    return broken


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
