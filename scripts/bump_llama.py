#!/usr/bin/env python3
"""Try another release of llama-cpp-python before its llama.cpp becomes ours.

    scripts/bump_llama.py 0.3.37            do the patches land, and how fast is it beside the old
    scripts/bump_llama.py 0.3.37 --write    the same, and change the pin if all is well

Needs the environment of scripts/test.sh: both are measured against the same stock peer, in turns.
Nothing of this checkout changes without --write; builds and sources stay in the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from native.errors import BuildError
from native.llama import unpack_sources
from native.patches import load_manifest, plan_patches
from orin_llm.errors import OrinError
from orin_llm.host.disk import sha256
from orin_llm.upstream import PIN, Pin, cache_dir

PIN_FILE = "orin_llm/upstream/pin.json"
_NOT_COPIED = (".*", "build", "dist", "*.so", "*.egg-info", "__pycache__")
PHASES = {"prefill": "prefill_tokens_per_s", "decode": "decode_tokens_per_s"}
BENCHMARK = (
    "-m",
    "orin_llm.cli",
    "bench",
    "--no-profile",
    "-n",
    "64",
    "-r",
    "7",
    "--peer",
    "stock",
    "--json",
)
SLOWEST = 0.95  # of the old speed: below it the pin is not changed

# Tokens per second of one side, by phase, each divided by what stock reached in the same run.
Speeds = dict[str, list[float]]


def download(version: str) -> Pin:
    """Put the release's archive into the cache and say what its pin would be."""
    folder = cache_dir() / "upstream"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as scratch:
        command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest", scratch]
        command += ["--no-binary", PIN.package, f"{PIN.package}=={version}"]
        if subprocess.run(command).returncode != 0:
            raise BuildError(f"pip could not fetch {PIN.package} {version}")
        archive = next(Path(scratch).glob("*.tar.gz"))
        pin = Pin(PIN.package, version, sha256(archive), upstream_commit(archive))
        os.replace(archive, folder / pin.archive_name)
    return pin


def upstream_commit(archive: Path) -> str:
    """The commit of llama.cpp, as the archive's copy of the submodule records it."""
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            if member.name.endswith(".git/modules/vendor/llama.cpp/HEAD"):
                head = tar.extractfile(member)
                assert head is not None
                return head.read().decode().strip()[:9]
    return "unknown"


def patches_that_do_not_land(pin: Pin, work: Path) -> list[str]:
    source = work / "src"
    shutil.rmtree(source, ignore_errors=True)
    unpack_sources(cache_dir() / "upstream" / pin.archive_name, source)
    return plan_patches(load_manifest(ROOT / "cpp" / "patches" / "manifest.toml"), source)[1]


def copy_checkout(pin: Pin, work: Path) -> Path:
    """This checkout as it lies here, with the other pin."""
    copy = work / "checkout"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    (copy / PIN_FILE).write_text(pin_text(pin))
    return copy


def pin_text(pin: Pin) -> str:
    return json.dumps(asdict(pin), indent=4) + "\n"


def run_in(checkout: Path, *arguments: str) -> str:
    """Run Python with that checkout's package before the installed one."""
    environment = {**os.environ, "PYTHONPATH": f"{checkout}:{checkout / 'scripts'}"}
    command = [sys.executable, *arguments]
    result = subprocess.run(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True
    )
    if result.returncode != 0:
        raise BuildError(f"{' '.join(arguments)} failed in {checkout}")
    return result.stdout


def measure(checkouts: list[Path], model: str, rounds: int) -> list[Speeds]:
    """Run the benchmark of each checkout in turns, so that a warm machine favours neither."""
    speeds: list[Speeds] = [{phase: [] for phase in PHASES} for _ in checkouts]
    for _ in range(rounds):
        for checkout, found in zip(checkouts, speeds, strict=True):
            report = json.loads(run_in(checkout, *BENCHMARK, "--model", model))
            _ours, stock = report["results"]
            for phase, figure in PHASES.items():
                found[phase].append(stock["speedup"][figure]["median"])
    return speeds


def compare(old: Speeds, new: Speeds) -> dict[str, float]:
    """New speed over old by phase: 0.5 is half as fast."""
    return {phase: median(new[phase]) / median(old[phase]) for phase in PHASES}


def write_pin(pin: Pin, root: Path) -> None:
    (root / PIN_FILE).write_text(pin_text(pin))
    project = root / "pyproject.toml"
    text = project.read_text()
    project.write_text(re.sub(rf'"{PIN.package}==[^"]+"', f'"{PIN.package}=={pin.version}"', text))


def bump(version: str, models: list[str], rounds: int, write: bool) -> int:
    pin = download(version)
    print(f"{pin.package} {version}: llama.cpp {pin.upstream_commit}, SHA-256 {pin.sha256}")
    work = cache_dir() / "bump" / version
    if problems := patches_that_do_not_land(pin, work):
        print("patches that do not land:", *problems, sep="\n  ")
        print(f"The unpatched sources to look at: {work / 'src'}")
        return 1
    print("all patches land")
    checkout = copy_checkout(pin, work)
    for folder in (ROOT, checkout):
        run_in(folder, "-m", "native.module")
    slower = False
    for model in models:
        for phase, ratio in compare(*measure([ROOT, checkout], model, rounds)).items():
            print(f"{model} {phase}: {ratio:.3f} times the old speed")
            slower |= ratio < SLOWEST
    if slower:
        print(f"slower than {SLOWEST} times the old speed: the pin stays at {PIN.version}")
        return 1
    if write:
        write_pin(pin, ROOT)
        print(f"pinned {version}: now run scripts/test.sh")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version")
    parser.add_argument("--model", action="append", help="name or path; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="change the pin when all is well")
    options = parser.parse_args()
    models = options.model or ["smollm2"]
    try:
        return bump(options.version, models, options.rounds, options.write)
    except (BuildError, OrinError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
