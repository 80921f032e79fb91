"""Which file of a repository holds the wanted quantization, read from the files' names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from orin_llm.errors import UsageError
from orin_llm.gguf.split import FileGroup, group
from orin_llm.models.reference import DEFAULT_QUANT, HubReference

_LABEL = re.compile(
    r"(?<![A-Z0-9])(?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)*|TQ[12]_0|BF16|FP?16|FP?32|[MN]XFP4(?:_[A-Z0-9]+)*)"
    r"(?![A-Z0-9])"
)
_NOT_A_LANGUAGE_MODEL = re.compile(r"(^|/)(mmproj|imatrix)|[-_.](mmproj|imatrix)", re.IGNORECASE)


def label(base: str) -> str | None:
    """The quantization that a file's name states: `Qwen3-8B-UD-Q4_K_XL` → `UD-Q4_K_XL`.

    The folder's name counts when the file's own says nothing. None where neither does.
    """
    for text in reversed(base.upper().split("/")):
        found = _LABEL.findall(text)
        if found:
            return str(found[-1])
    return None


def settled(wanted: HubReference, file: str) -> HubReference:
    """`wanted` with what it left open made that of the `file` that was chosen for it."""
    if wanted.quant or wanted.file:
        return wanted
    quant = label(file.rpartition(".")[0])
    if quant == f"UD-{DEFAULT_QUANT}":
        return wanted
    return replace(wanted, quant=quant, file=None if quant else file)


def choose(files: Sequence[str], wanted: HubReference) -> tuple[str, ...]:
    """The file, or all parts of it, that `wanted` means, out of a repository's files.

    An exact file name wins; then the quantization (Q4_K_M where none was given); a repository
    with a single model needs neither.

    Raises:
        UsageError: nothing or more than one thing matches; the message lists what there is.
    """
    groups = [g for g in group(files) if not _NOT_A_LANGUAGE_MODEL.search(g.base)]
    if not groups:
        raise UsageError(
            f"{wanted.repo} holds no .gguf model (it has {len(files)} other files): look for a "
            "repository whose name ends in -GGUF"
        )
    if wanted.file is not None:
        exact = [g for g in groups if wanted.file in g.files]
        return exact[0].files if exact else _refuse(groups, wanted, f"no file {wanted.file}")
    if len(groups) == 1 and wanted.quant is None:
        return groups[0].files
    quant = wanted.quant or DEFAULT_QUANT
    labels = {g.base: label(g.base) for g in groups}
    matching = [g for g in groups if labels[g.base] == quant]
    if not matching:
        matching = [g for g in groups if labels[g.base] == f"UD-{quant}"]
    if len(matching) == 1:
        return matching[0].files
    problem = f"no {quant} file" if not matching else f"{len(matching)} files of {quant}"
    return _refuse(matching or groups, wanted, problem)


def _refuse(groups: list[FileGroup], wanted: HubReference, problem: str) -> tuple[str, ...]:
    lines = [f"{wanted.repo} has {problem}. Choose one of:"]
    labels = [label(g.base) for g in groups]
    for g, quant in zip(groups, labels, strict=True):
        by_quant = quant is not None and labels.count(quant) == 1
        choice = f"hf:{wanted.repo}:{quant}" if by_quant else f"hf:{wanted.repo}/{g.files[0]}"
        lines.append(f"  {choice}")
    raise UsageError("\n".join(lines))
