"""Functions and their innermost loops in what `objdump -dC --no-show-raw-insn` prints (AArch64)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

_FUNCTION = re.compile(r"([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\s+(\S+)(?:\s+(.*))?$")
_BRANCH = re.compile(r"(?:b|b\.\w+|bc\.\w+|cbn?z|tbn?z)$")
_TARGET = re.compile(r"(?:^|, )([0-9a-f]+) <")
_NOTHING_FOLLOWS = frozenset({"b", "br", "ret", "udf", "brk"})


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str

    def __str__(self) -> str:
        return f"{self.name} {self.operands}".rstrip()

    @property
    def target(self) -> int | None:
        """Where it may branch to; None for calls, returns and branches to what a register holds."""
        found = _TARGET.search(self.operands) if _BRANCH.match(self.name) else None
        return int(found[1], 16) if found else None


@dataclass(frozen=True)
class Function:
    name: str
    code: tuple[Instruction, ...]

    @cached_property
    def innermost_loops(self) -> list[tuple[Instruction, ...]]:
        """Loops that have no loop within, in the order of their addresses."""
        index = {each.address: i for i, each in enumerate(self.code)}
        after: dict[int, list[int]] = {i: [] for i in range(len(self.code))}
        for i, each in enumerate(self.code):
            if each.name not in _NOTHING_FOLLOWS and i + 1 < len(self.code):
                after[i].append(i + 1)
            if each.target in index:
                after[i].append(index[each.target])
        return [
            tuple(self.code[i] for i in sorted(loop)) for loop in sorted(_innermost(after), key=min)
        ]


def _innermost(after: dict[int, list[int]]) -> Iterator[set[int]]:
    """What goes round in a graph (given by what follows each node) and has no such thing within."""
    for group in _strongly_connected(after):
        if not any(group.intersection(after[i]) for i in group):
            continue
        entries = {j for i in after if i not in group for j in after[i] if j in group}
        # What still goes round without the ways to where the group is entered is within it.
        within = {i: [j for j in after[i] if j in group and j not in entries] for i in group}
        inner = list(_innermost(within)) if entries else []
        yield from inner or [group]


def _strongly_connected(after: dict[int, list[int]]) -> Iterator[set[int]]:
    """Kosaraju's: groups of nodes each of which can be reached from each."""
    finished: list[int] = []
    seen: set[int] = set()
    for root in after:
        stack = [(root, iter(after[root]))] if root not in seen else []
        seen.add(root)
        while stack:
            node, nexts = stack[-1]
            for following in nexts:
                if following not in seen:
                    seen.add(following)
                    stack.append((following, iter(after[following])))
                    break
            else:
                finished.append(node)
                stack.pop()
    before: dict[int, list[int]] = {i: [] for i in after}
    for i in after:
        for j in after[i]:
            before[j].append(i)
    left = set(after)
    for root in reversed(finished):
        if root not in left:
            continue
        group = {root}
        left.discard(root)
        todo = [root]
        while todo:
            for i in before[todo.pop()]:
                if i in left:
                    left.discard(i)
                    group.add(i)
                    todo.append(i)
        yield group


def functions(text: Iterable[str]) -> Iterator[Function]:
    """The functions of a disassembly, in the order of their addresses."""
    name = ""
    code: list[Instruction] = []
    for line in text:
        if begins := _FUNCTION.match(line.rstrip()):
            if code:
                yield Function(name, tuple(code))
            name, code = begins[2], []
        elif name and (found := _INSTRUCTION.match(line)):
            operands = (found[3] or "").split("//")[0].strip()
            code.append(Instruction(int(found[1], 16), found[2], operands))
    if code:
        yield Function(name, tuple(code))
