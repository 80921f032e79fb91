"""A Jinja2 environment for programs from strangers: no way out, and an end to every render.

Jinja2's sandbox keeps a template from reaching Python. It does not keep one from running for ever
or from filling the memory, which is what the limits here are for. They bound loops, calls, time,
the output and the size of single values; they are far above what a chat needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from orin_llm.text.limits import Budget, LimitExceeded, Limits, budget

# Their results can be larger than their arguments by a factor that is not worth computing.
DROPPED_FILTERS = ("center", "pprint", "urlize", "wordwrap", "xmlattr")
DROPPED_STR_METHODS = frozenset({"expandtabs", "translate"})
# Arguments of these are widths or counts, which make results large out of nothing.
WIDTH_CALLS = frozenset({"batch", "center", "indent", "ljust", "rjust", "round", "slice", "zfill"})
MAX_WIDTH = 10_000
MAX_INT_BITS = 1 << 13

_HUGE_PERCENT_FIELD = re.compile(r"%[^a-zA-Z%]*(\*|\d{5})")
_HUGE_BRACE_FIELD = re.compile(r"[:!][^{}]*(\{|\d{5})")


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """Compiles one template and renders it within limits. Renders may run in several threads."""

    FILE_NAME = "<template>"  # what Jinja2 calls a template without a file in tracebacks
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[jinja2.ext.loopcontrols, GenerationTag],
            finalize=self._finalized,
        )
        # The output of macros and set blocks goes through here.
        self.concat = self._join  # type: ignore[method-assign]
        for name in DROPPED_FILTERS:
            del self.filters[name]
        self.filters.update(tojson=self._tojson, join=self._join_filter, sum=_sum_of_numbers)
        self.filters = {name: self._guarded(name, run) for name, run in self.filters.items()}
        self.filters["_rounds"] = _rounds
        self.filters["_bounded"] = self._bounded_text
        del self.globals["lipsum"]
        self.globals["dict"] = lambda *args, **items: dict(*args, **items)
        self.globals["namespace"] = PublicNamespace

    def compile_source(self, source: str) -> None:
        """Take the template. Raises jinja2.TemplateSyntaxError, LimitExceeded, RecursionError …"""
        if len(source) > self._limits.source_chars:
            raise LimitExceeded(
                f"its source has {len(source)} characters, the limit is {self._limits.source_chars}"
            )
        self._template = self.from_string(source)

    def render_text(self, variables: Mapping[str, Any]) -> str:
        """Run the template. Any exception can come out of it."""
        token = budget.set(Budget(self._limits))
        try:
            pieces: list[str] = []
            size = 0
            for piece in self._template.generate(variables):
                size += len(piece)
                if size > self._limits.output_chars:
                    raise LimitExceeded(f"more than {self._limits.output_chars} characters")
                pieces.append(piece)
            return "".join(pieces)
        finally:
            budget.reset(token)

    # Jinja2's own hooks

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Parse, then bound loops and `~`, which have no hook of their own."""
        tree = Parser(self, source, name, filename).parse()
        for loop in tree.find_all(nodes.For):
            loop.iter = _filtered(loop.iter, "_rounds")
        for joined in tree.find_all(nodes.Concat):
            joined.nodes = [_filtered(operand, "_bounded") for operand in joined.nodes]
        return tree

    def call(self, context: Context, callee: Any, /, *args: Any, **options: Any) -> Any:
        budget.get().step()
        owner = getattr(getattr(callee, "__wrapped__", callee), "__self__", None)
        if isinstance(owner, str):
            args = self._checked(callee.__name__, owner, args, options)
        return self._bounded(super().call(context, callee, *args, **options))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in DROPPED_STR_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, str) and operator == "%":
            _refuse_if(_HUGE_PERCENT_FIELD.search(left), f"the format {left[:40]!r}")
        elif isinstance(left, int) and isinstance(right, int) and operator in ("*", "**"):
            bits = left.bit_length()
            bits = bits * right if operator == "**" else bits + right.bit_length()
            _refuse_if(bits > MAX_INT_BITS, "a number of thousands of digits")
        elif operator == "*":
            count, value = (left, right) if isinstance(left, int) else (right, left)
            if isinstance(value, (str, list, tuple)) and isinstance(count, int):
                self._require_size(len(value) * count)
        elif isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            self._require_size(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    # Sizes

    def _require_size(self, size: int) -> None:
        if size > self._limits.value_size:
            limit = self._limits.value_size
            raise LimitExceeded(f"a value of more than {limit} characters or items")

    def _bounded(self, value: Any) -> Any:
        if isinstance(value, (str, list, tuple, dict)):
            self._require_size(len(value))
        return value

    def _weigh(self, value: Any) -> None:
        """Bound what a nested value is written as: short lists that share parts can write long."""
        stack, size = [value], 0
        while stack:
            item = stack.pop()
            size += 1
            if isinstance(item, str):
                size += len(item)
            elif isinstance(item, (list, tuple)):
                stack.extend(item)
            elif isinstance(item, dict):
                stack.extend(item.keys())
                stack.extend(item.values())
            self._require_size(size + len(stack))

    def _finalized(self, value: Any) -> Any:
        """What `{{ }}` writes."""
        if isinstance(value, (list, tuple, dict)):
            self._weigh(value)
        return value

    def _bounded_text(self, value: Any) -> Any:
        """An operand of `~`: the same value, if it is not longer than a value may be."""
        return self._finalized(self._bounded(value))

    def _join(self, pieces: Iterable[str]) -> str:
        pieces = list(pieces)
        self._require_size(sum(len(piece) for piece in pieces))
        return "".join(pieces)

    def _checked(
        self, name: str, owner: str, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Refuse a call on a text whose result would be too long; return the arguments."""
        if name in WIDTH_CALLS:
            widths = [value for value in (*args, *options.values()) if isinstance(value, int)]
            _refuse_if(any(width > MAX_WIDTH for width in widths), f"a width above {MAX_WIDTH}")
            if name == "indent":
                self._require_size((owner.count("\n") + 1) * max([4, *widths]))
        elif name == "replace" and len(args) >= 2 and all(isinstance(arg, str) for arg in args[:2]):
            self._require_size(len(owner) + owner.count(args[0]) * len(args[1]))
        elif name == "join" and args:
            items = list(args[0])
            self._require_size(sum(len(str(item)) + len(owner) for item in items))
            return (items,)
        elif name in ("format", "format_map"):
            _refuse_if(_HUGE_BRACE_FIELD.search(owner), f"the format {owner[:40]!r}")
        return args

    # Filters

    def _guarded(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        takes_context = hasattr(run, "jinja_pass_arg")

        @wraps(run)
        def bounded(*args: Any, **options: Any) -> Any:
            value, *rest = args[1:] if takes_context else args
            if name == "format":
                text = str(value)
                _refuse_if(_HUGE_PERCENT_FIELD.search(text), f"the format {text[:40]!r}")
            elif name == "string":
                self._finalized(value)
            elif name != "join":
                self._checked(name, value if isinstance(value, str) else "", tuple(rest), options)
            return self._bounded(run(*args, **options))

        return bounded

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        _refuse_if(indent is not None and indent > 100, "an indent above 100")
        self._weigh(value)
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    @jinja2.pass_eval_context
    def _join_filter(
        self, eval_context: nodes.EvalContext, value: Any, d: Any = "", attribute: Any = None
    ) -> Any:
        items = list(value)
        self._require_size(len(items) * len(str(d)))
        self._weigh(items)
        return jinja2.filters.sync_do_join(eval_context, items, d, attribute)


class PublicNamespace(Namespace):
    """Jinja2's namespace without names that begin with an underscore."""

    def __init__(*args: Any, **attributes: Any) -> None:  # a template may name an attribute self
        self, *given = args
        attributes = dict(*given, **attributes)
        for name in attributes:
            _refuse_private(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


class GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks what the assistant said, for training; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012  (Jinja2 declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@jinja2.pass_context
def _rounds(context: Context, values: Iterable[Any]) -> Iterator[Any]:
    account = budget.get()
    for value in values:
        account.step()
        yield value


@jinja2.pass_environment
def _sum_of_numbers(
    environment: jinja2.Environment, values: Iterable[Any], attribute: Any = None, start: Any = 0
) -> Any:
    _refuse_if(not isinstance(start, (int, float)), "a sum of other things than numbers")
    return jinja2.filters.sync_do_sum(environment, values, attribute, start)


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    added = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
    added.environment = node.environment  # the optimizer looks the filter up there
    return added


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"the namespace name {name!r} begins with an underscore")


def _refuse_if(wrong: object, what: str) -> None:
    if wrong:
        raise LimitExceeded(f"{what} is more than a chat template may ask for")
