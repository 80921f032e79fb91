"""The step that builds a wheel for Arm, installs it away from the checkout and has it answer."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from arm64_check.environment import make_environment, site_packages
from arm64_check.steps import WORK, CheckFailed, Emulated, Found, run_program
from checking.checkout import ROOT
from orin_llm.models.names import DEFAULT_MODEL

_PROMPT = "Why is the sky blue?"
_TOKENS = 16
_ELSEWHERE = {"PYTHONPATH": ""}  # the checkout is not to be found


def wheel(machine: Emulated) -> Found:
    """Times are those of an emulator."""
    built = build_wheel(machine)
    program = install(machine, built)
    found: Found = {"wheel": built.name, "bytes": built.stat().st_size}
    found["version"] = _output(program, "--version").strip()
    require_usable(_output(program, "doctor", "--json", check=False))
    run_program([sys.executable, "-m", "orin_llm.cli", "models", "pull", DEFAULT_MODEL])
    asked = ("run", "-m", DEFAULT_MODEL, "-p", _PROMPT, "-n", str(_TOKENS), "--temp", "0")
    answer = json.loads(_output(program, *asked, "--json"))
    if answer["completion_tokens"] != _TOKENS:
        raise CheckFailed(f"expected {_TOKENS} tokens of an answer: {answer['text']!r}")
    times = {f"emulated_{name}": answer["timings"][name] for name in ("ttft_ms", "tpot_ms")}
    return {**found, "answer": answer["text"], **times}


def build_wheel(machine: Emulated) -> Path:
    """As pip builds it on the board; what scripts/build.sh has compiled is taken from there."""
    folder = WORK / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    for stale in ROOT.glob("build/lib.linux-aarch64-*"):  # may have files that are gone
        shutil.rmtree(stale)
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(folder))
    machine.run(["-m", "pip", "wheel", "--quiet", *options, str(ROOT)], env=machine.building)
    (built,) = folder.iterdir()
    if not built.name.endswith("-linux_aarch64.whl"):
        raise CheckFailed(f"{built.name} is no wheel for linux_aarch64")
    return built


def install(machine: Emulated, built: Path) -> Path:
    """Into an environment that has nothing else of ours. Gives its orin-llm."""
    folder = WORK / "installed"
    python = make_environment(folder, machine.root, machine.emulator)
    packages = site_packages(machine.python.parents[1], machine.root)
    (site_packages(folder, machine.root) / "packages.pth").write_text(f"{packages}\n")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(built)]
    run_program(install, env=_ELSEWHERE, cwd=WORK)
    # That all which the wheel needs is there, in the versions that it needs.
    run_program([*pip, "check"], env=_ELSEWHERE, cwd=WORK)
    return folder / "bin/orin-llm"


def require_usable(report: str) -> None:
    """What hurts, as a slow disk does, is no matter here."""
    try:
        checks = json.loads(report)["checks"]
    except ValueError:
        raise CheckFailed(f"orin-llm doctor gives no report: {report.strip()[-500:]!r}") from None
    if missing := [check["found"] for check in checks if check["level"] == "missing"]:
        raise CheckFailed(f"orin-llm doctor says: {'; '.join(missing)}")


def _output(program: Path, *arguments: str, check: bool = True) -> str:
    done = run_program([str(program), *arguments], env=_ELSEWHERE, cwd=WORK, check=check)
    return str(done.stdout)
