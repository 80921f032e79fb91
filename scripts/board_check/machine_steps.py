"""Steps that look at the machine: what it is, what it does at rest, what the program finds."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from arm64_check.build import FEATURES
from board_check.target import Target, check, judged
from board_check.tegrastats import recording, what_lines_say
from checking.steps import Context, Found, NotPossible, StepFailed
from orin_llm.device.board import read_board
from orin_llm.device.caps import read_caps
from orin_llm.device.clocks import reaches
from orin_llm.device.stamp import read_stamp

_GLIBC = (2, 35)  # of JetPack 6
_IDLE_S = 3.0
_BOARD = "this is no Jetson: "


def facts(target: Target, context: Context) -> Found:
    """The step: what the machine is, and whether that is what was assumed of a board."""
    folder = target.collected / "facts"
    done = context.need(target.run_module("board_check.facts", str(target.root), str(folder)))
    found: dict[str, Any] = json.loads(done.out)
    (target.collected / "facts.json").write_text(json.dumps(found, indent=1) + "\n")
    stamp = found["stamp"]
    where = [stamp["board"], stamp["module"], stamp["l4t"] and f"L4T {stamp['l4t']}"]
    where += [stamp["jetpack"] and f"JetPack {stamp['jetpack']}", stamp["power_mode"]]
    return judged(", ".join(filter(None, where)), _assumed(target, found), facts=found)


def _assumed(target: Target, found: dict[str, Any]) -> list[dict[str, Any]]:
    features = found["cpu"]["features"]
    odd = [f"no {name}" for name in FEATURES if name not in features]
    odd += [name for name in features if name not in FEATURES]
    module = found["board"]["module"]
    libc = re.search(r"(\d+)\.(\d+)", found["libc"])
    version = tuple(map(int, libc.groups())) if libc else None
    is_agx = "AGX" in module["name"] if module else None if target.is_jetson else False
    on_board = target.is_jetson or None  # what is asked of a board says nothing of a PC
    return [
        check("it is a Jetson AGX Orin", is_agx, found["board"]["name"],
              "run it on the board: this machine tells nothing of one"),
        check("the processor has what the Arm code was built and emulated for, and no more",
              on_board and not odd, ", ".join(odd) or "as assumed",
              "send the archive: code for these instructions could be added"),
        check("glibc is 2.35 or newer", None if version is None else version >= _GLIBC,
              found["libc"], "JetPack 6 has it: JetPack 5 is out of support (docs/setup.md)"),
    ]  # fmt: skip


def restrictions(root: Path) -> list[str]:
    """What keeps the board from its full speed, and what sets it free; nothing is changed here."""
    board, caps, stamp = read_board(root), read_caps(root), read_stamp(root)
    if not board.is_jetson:
        return [f"{_BOARD}what needs one is not run"]
    found = []
    to_do = "sudo .venv/bin/orin-llm setup apply --only"
    if not (stamp.power_mode or "MAXN").startswith("MAXN"):  # MAXN_SUPER, too
        clocks = f"{stamp.gpu_units} TPCs, GPU up to {stamp.gpu_cap_mhz} MHz"
        found.append(f"power mode {stamp.power_mode} ({clocks}): {to_do} power-mode")
    most, emc = board.module and board.module.emc_max_mhz, caps.emc_max_mhz(board.module)
    if most and emc is not None and not reaches(emc, most):
        found.append(f"memory up to {emc:.0f} of {most} MHz: {to_do} emc-cap")
    if stamp.clocks_pinned is False:
        found.append(f"clocks are not pinned: {to_do} clocks")
    return found


def idle(target: Target, context: Context) -> Found:
    """The step: lines of tegrastats while nothing runs."""
    path = target.collected / "tegrastats.idle.txt"
    with recording(target, path) as is_recorded:
        if not is_recorded:
            raise NotPossible(
                "no tegrastats on PATH" if target.is_jetson else f"{_BOARD}no tegrastats"
            )
        time.sleep(min(_IDLE_S, max(0.0, context.deadline - time.monotonic())))
    return judged(**what_lines_say(target, path))


def doctor(target: Target, context: Context) -> Found:
    """The step: the program's own checks, each that hurts with what to do."""
    model = [target.model] if target.model else []
    done = context.run(target.orin_llm("doctor", "--json", *model))
    try:
        report = json.loads(done.out)
    except ValueError:
        raise StepFailed(f"orin-llm doctor {done.why()}") from None
    counts: dict[str, int] = {}
    for finding in report["checks"]:
        counts[finding["level"]] = counts.get(finding["level"], 0) + 1
    hurts = [one for one in report["checks"] if one["level"] in ("missing", "hurts")]
    checks = [
        check(f"doctor: {one['check']}", False, one["found"], one["fix"] or "") for one in hurts
    ]
    said = ", ".join(f"{count} {level}" for level, count in counts.items())
    load = report.get("under_load") or {}
    return judged(said, checks, under_load=load)


def setup(target: Target, context: Context) -> Found:
    """The step: what `orin-llm setup` would change; nothing is."""
    _only_a_jetson(target)
    done = context.need(target.orin_llm("setup", "plan", "--json"))
    pending = [one["name"] for one in json.loads(done.out)["changes"] if one["pending"]]
    return judged(f"would change: {', '.join(pending) or 'nothing'}", [])


def monitor(target: Target, context: Context) -> Found:
    """The step: one look at all sensors."""
    done = context.need(target.orin_llm("monitor", "--once", "--json"))
    sources = json.loads(done.out)["reading"]["sources"]
    return judged(f"read: {', '.join(sources) or 'nothing'}", [])


def _only_a_jetson(target: Target) -> None:
    if not target.is_jetson:
        raise NotPossible(f"{_BOARD}nothing to set up")
