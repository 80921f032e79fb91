"""The step that reads the module's machine code: vector code where it counts, nothing that the
board's processor lacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from arm64_check.hot_loops import HOT_LOOPS, HotLoop
from arm64_check.machine_code import Function, functions
from arm64_check.steps import CheckFailed, Emulated, Found, run_program
from native.toolchain import PORTABLE_FLAGS

_MARCH = PORTABLE_FLAGS["aarch64"]  # the Cortex-A78AE's, without what compilers do not use
_COUNTED = ("sdot", "fmla", "fcvtl", "fcvtl2")
_LABEL = re.compile(r"\b[0-9a-f]+ <.*>$")
_REFUSED = re.compile(r":(\d+): Error: (.*)")
_UNREAD = ".inst"  # a word that objdump cannot read; an assembler takes any
_SHOWN = 10


def disassembly(machine: Emulated) -> Found:
    return check(machine.module, machine.tools)


def check(module: Path, tools: str, rules: Sequence[HotLoop] = HOT_LOOPS) -> Found:
    """How many instructions there are, and of which kinds.

    Args:
        tools: what the names of the binutils for it begin with.

    Raises:
        CheckFailed: a rule does not hold, or an instruction is not among the processor's.
    """
    shown = run_program([f"{tools}objdump", "-dC", "--no-show-raw-insn", str(module)]).stdout
    found = list(functions(shown.splitlines()))
    problems = [*hold(found, rules), *foreign(found, f"{tools}as")]
    if problems:
        raise CheckFailed("\n".join([f"{module.name}:", *problems]))
    names = Counter(each.name for function in found for each in function.code)
    return {
        "instructions": sum(names.values()),
        "rules": len(rules),
        **{name: names[name] for name in _COUNTED},
    }


def hold(found: Sequence[Function], rules: Sequence[HotLoop]) -> list[str]:
    """What breaks the rules."""
    problems = []
    for rule in rules:
        named = [each for each in found if re.search(rule.function, each.name)]
        if not named:
            problems.append(
                f"no function is named as {rule.function}: where it was renamed, change"
                " scripts/arm64_check/hot_loops.py; a stripped module cannot be read"
            )
        problems += [problem for each in named if (problem := rule.broken_by(each))]
    return problems


def foreign(found: Sequence[Function], assembler: str) -> list[str]:
    """Instructions that the processor does not have: an assembler for it refuses them."""
    where: dict[str, str] = {}
    for function in found:
        for each in function.code:
            # Where a branch goes to does not matter, and is too far away for some.
            text = _LABEL.sub(".", str(each))
            where.setdefault(text, f"{function.name} at {each.address:x}")
    refused = {text: "objdump does not know it" for text in where if text.startswith(_UNREAD)}
    texts = [text for text in where if text not in refused]
    done = run_program(
        [assembler, *_MARCH, "-o", "/dev/null"],
        input="\n".join(texts) + "\n",
        check=False,
    )
    said = _REFUSED.findall(done.stderr)
    if done.returncode != 0 and not said:
        raise CheckFailed(f"{assembler} said: {done.stderr.strip()}")
    refused |= {texts[int(number) - 1]: why for number, why in said}
    problems = [
        f"{where[text]}: the processor does not have `{text}` ({why})"
        for text, why in islice(refused.items(), _SHOWN)
    ]
    if len(refused) > _SHOWN:
        problems.append(f"and {len(refused) - _SHOWN} more")
    return problems
