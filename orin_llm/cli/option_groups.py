"""Options that several commands share, declared once as dataclasses and spread into their flags."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

import typer


@dataclasses.dataclass(frozen=True)
class Given:
    """What the user said, whether it is the default or not.

    Attributes:
        names: of fields whose flag or environment mirror was given.
        typed: of those, the ones on the command line.
    """

    names: frozenset[str] = frozenset()
    typed: frozenset[str] = frozenset()

    def among(self, names: Iterable[str]) -> Given:
        """Of these fields."""
        return Given(self.names.intersection(names), self.typed.intersection(names))


NOTHING_GIVEN = Given()


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Make a Typer command of a function that takes option groups.

    A parameter annotated with a dataclass is replaced by one flag for each field, annotated
    `Annotated[type, typer.Option(…)]`, with the field's default; when the command runs, the
    function gets the filled dataclass. A field annotated `Given` is no flag: it gets the names of
    those that were given. Other parameters stay as they are.
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
    own_context = next((f.name for f in flags if f.annotation is typer.Context), None)
    context = own_context or "context"
    if own_context is None:
        flags.append(_parameter(context, typer.Context))

    @functools.wraps(command)
    def spread(**values: Any) -> None:
        given = _given(values[context] if own_context else values.pop(context))
        filled = {}
        for name, group in groups.items():
            names = [field.name for field in dataclasses.fields(group)]
            own = {field: values.pop(field) for field in names if field in values}
            if "given" in names:
                own["given"] = given.among(names)
            filled[name] = group(**own)
        command(**filled, **values)

    spread.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    spread.__annotations__ = {flag.name: flag.annotation for flag in flags}
    del spread.__wrapped__
    return spread


def _given(context: typer.Context) -> Given:
    sources = {name: context.get_parameter_source(name) for name in context.params}
    names = {name: source.name for name, source in sources.items() if source is not None}
    return Given(
        frozenset(name for name, source in names.items() if source != "DEFAULT"),
        frozenset(name for name, source in names.items() if source == "COMMANDLINE"),
    )


def _flags_of(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        _parameter(field.name, hints[field.name], field.default)
        for field in dataclasses.fields(group)
        if hints[field.name] is not Given
    ]


def _parameter(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
