"""Options that several commands share, declared once as dataclasses and spread into their flags."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Make a Typer command of a function that takes option groups.

    A parameter annotated with a dataclass is replaced by one flag for each field, annotated
    `Annotated[type, typer.Option(…)]`, with the field's default; when the command runs, the
    function gets the filled dataclass. Other parameters stay as they are.
    """
    groups: dict[str, type[Any]] = {}
    flags: list[inspect.Parameter] = []
    # Not get_type_hints: for a default of None, Python 3.10's hides the flag inside an Optional.
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        hint = parameter.annotation
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            groups[parameter.name] = hint
            flags += _flags_of(hint)
        else:
            flags.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def spread(**values: Any) -> None:
        filled = {
            name: group(
                **{field.name: values.pop(field.name) for field in dataclasses.fields(group)}
            )
            for name, group in groups.items()
        }
        command(**filled, **values)

    spread.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    spread.__annotations__ = {flag.name: flag.annotation for flag in flags}
    del spread.__wrapped__
    return spread


def _flags_of(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(group)
    ]
