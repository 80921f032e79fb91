"""Chat templates: rendered as transformers renders them, and bounded when they are hostile."""

from __future__ import annotations

import enum
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from orin_llm.text.limits import Limits
from orin_llm.text.template import ChatTemplate, TemplateError

FOLDER = Path(__file__).parent / "chat_templates"
CASES = json.loads((FOLDER / "cases.json").read_text("utf-8"))
GOLDEN = json.loads((FOLDER / "golden.json").read_text("utf-8"))["golden"]
HELLO = [{"role": "user", "content": "Hello"}]
SMALL = Limits(output_chars=100_000, value_size=100_000, steps=10_000)


def template(source: str | None, limits: Limits | None = None) -> ChatTemplate:
    return ChatTemplate(
        source,
        bos_token="<s>",
        eos_token="</s>",
        limits=limits,
        now=lambda: datetime(2026, 7, 26, 12, 0),
    )


def render(source: str, messages: list[dict[str, Any]] | None = None, **variables: Any) -> str:
    return template(source).render(HELLO if messages is None else messages, **variables)


@pytest.mark.parametrize(
    "golden", GOLDEN, ids=lambda g: f"{g['template']}-{g['messages']}-{g['variables']}"
)
def test_renders_as_transformers_does(golden: dict[str, Any]) -> None:
    variables = dict(CASES["variables"][golden["variables"]])
    if variables.pop("with_tools", False):
        variables["tools"] = CASES["tools"]
    chat = template((FOLDER / golden["template"]).read_text("utf-8"))
    messages = CASES["messages"][golden["messages"]]
    if "text" in golden:
        assert chat.render(messages, **variables) == golden["text"]
    else:
        with pytest.raises(TemplateError) as caught:
            chat.render(messages, **variables)
        assert golden["error"] in str(caught.value)


def test_a_missing_template_is_chatml_and_says_so() -> None:
    chat = template(None)
    assert chat.is_default
    assert chat.stop == ("<|im_end|>",)
    assert chat.render(HELLO) == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert not template("x").is_default
    assert template("x").stop == ()


def test_only_plain_data_reaches_a_template() -> None:
    class Colour(str, enum.Enum):
        RED = "red"

    class Opener:
        def read(self) -> str:
            return "secret"

    message = {"role": "user", "content": Colour.RED, "image": Opener(), "none": None}
    source = "{{ messages[0].content }} {{ messages[0].image }} {{ messages[0].none is defined }}"
    assert render(source, [message]) == "red <Opener> False"


# Errors


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("one\ntwo {% if %}", "cannot be read: line 2"),
        ("\n\n{{ nothing.at_all }}", r"\(line 3\) failed: UndefinedError: 'nothing' is undefined"),
        ("\n{{ raise_exception('no system, please') }}", r"\(line 2\) refuses.*no system, please"),
        ("{{ 1 / 0 }}", r"\(line 1\) failed: ZeroDivisionError"),
        ("{% for i in 5 %}{% endfor %}", r"\(line 1\) failed: TypeError"),
        ("{% include 'other' %}", r"\(line 1\) failed"),
    ],
)
def test_an_error_names_the_line(source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        render(source)


def test_a_message_that_is_no_mapping_is_named() -> None:
    with pytest.raises(TemplateError, match="a message is a str"):
        template("{{ messages }}").render(["Hello"])  # type: ignore[list-item]


# Hostile templates

ESCAPES = {
    "class": "{{ ''.__class__.__mro__ }}",
    "globals": "{{ raise_exception.__globals__['json'] }}",
    "getattr filter": "{{ (''|attr('__class__')).x }}",
    "format": "{{ '{0.__class__.x}'.format('') }}",
    "format_map": "{{ '{a.__class__.x}'.format_map({'a': ''}) }}",
    "str method": "{{ 'a'.translate({97: 'b'}) }}",
    "namespace": "{% set ns = namespace(__class__=1) %}",
    "namespace later": "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "append": "{{ messages.append(1) }}",
    "pop": "{{ messages[0].pop('content') }}",
}


@pytest.mark.parametrize("source", ESCAPES.values(), ids=ESCAPES.keys())
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(TemplateError, match="SecurityError"):
        render(source)


DOUBLE = (
    "{%% set ns = namespace(a=%s) %%}{%% for i in range(60) %%}{%% set ns.a = %s %%}{%% endfor %%}"
)
BOMBS = {
    "range": "{% for i in range(10 ** 6) %}{% endfor %}",
    "nested loops": "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "endless macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "macro tree": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(40) }}",
    "recursive loop": "{% for i in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "text times number": "{{ 'a' * 10 ** 9 }}",
    "number times list": "{{ 10 ** 9 * [1] }}",
    "power": "{{ 10 ** (10 ** 9) }}",
    "number products": DOUBLE % ("10", "ns.a * ns.a"),
    "text sums": DOUBLE % ("'a'", "ns.a + ns.a"),
    "joined texts": DOUBLE % ("'a'", "ns.a ~ ns.a"),
    "safe text sums": DOUBLE % ("'a'|safe", "ns.a + ns.a"),
    "shared lists written": DOUBLE % ("[1]", "[ns.a, ns.a]") + "{{ ns.a }}",
    "shared lists joined": DOUBLE % ("[1]", "[ns.a, ns.a]") + "{{ ns.a ~ '' }}",
    "shared lists as text": DOUBLE % ("[1]", "[ns.a, ns.a]") + "{{ ns.a|string|length }}",
    "shared lists as json": DOUBLE % ("[1]", "[ns.a, ns.a]") + "{{ ns.a|tojson|length }}",
    "shared lists by join": DOUBLE % ("[1]", "[ns.a, ns.a]") + "{{ ns.a|join|length }}",
    "json indent": "{{ [1]|tojson(indent=10 ** 9) }}",
    "percent width": "{{ '%1000000000d' % 1 }}",
    "percent width given": "{{ '%*d' % (10 ** 9, 1) }}",
    "percent filter": "{{ '%1000000000d'|format(1) }}",
    "brace width": "{{ '{:1000000000}'.format(1) }}",
    "brace width given": "{{ '{:{}}'.format(1, 10 ** 9) }}",
    "ljust": "{{ 'a'.ljust(10 ** 9) }}",
    "zfill": "{{ 'a'.zfill(width=10 ** 9) if false else 'a'.zfill(10 ** 9) }}",
    "indent": "{{ 'a'|indent(10 ** 9, first=true) }}",
    "indent lines": "{{ ('\\n' * 9000)|indent(9000, blank=true)|length }}",
    "batch": "{{ [1]|batch(10 ** 9, 0)|list }}",
    "round": "{{ 1|round(10 ** 9, 'ceil') }}",
    "replace": "{{ ('a' * 9000).replace('a', 'b' * 9000)|length }}",
    "replace filter": "{{ ('a' * 9000)|replace('a', 'b' * 9000)|length }}",
    "join method": "{{ ('b' * 9000).join('a' * 9000)|length }}",
    "join filter": "{{ ('a' * 9000)|join('b' * 9000)|length }}",
    "set block": "{% set x %}{% for i in range(9000) %}" + "z" * 5000 + "{% endfor %}{% endset %}",
    "macro output": "{% macro f() %}{% for i in range(9000) %}" + "z" * 5000 + "{% endfor %}"
    "{% endmacro %}{{ f()|length }}",
    "output": "{% for i in range(9000) %}" + "z" * 5000 + "{% endfor %}",
    "deep source": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "long source": "x" * (1 << 19),
}


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_stopped(source: str) -> None:
    with pytest.raises(TemplateError, match=r"was stopped|is refused|too deeply|Range too big"):
        template(source, SMALL).render(HELLO)


def test_time_is_a_limit_of_its_own() -> None:
    with pytest.raises(TemplateError, match="seconds"):
        template("{% for i in range(9) %}{% endfor %}", Limits(seconds=0)).render(HELLO)


def test_limits_leave_room_for_a_long_chat() -> None:
    messages = [
        {"role": role, "content": f"{number} " * 1000}
        for number in range(200)
        for role in ("user", "assistant")
    ]
    text = template((FOLDER / "thinking.jinja").read_text("utf-8")).render(messages)
    assert text.count("<user>") == 200


def test_one_template_renders_again_after_a_failure() -> None:
    chat = template("{% for i in range(messages[0].content|int) %}{% endfor %}done", SMALL)
    with pytest.raises(TemplateError):
        chat.render([{"role": "user", "content": "20000"}])
    assert chat.render([{"role": "user", "content": "9000"}]) == "done"
    assert chat.render([{"role": "user", "content": "9000"}]) == "done"


@pytest.mark.parametrize("message", [{"content": "x"}, {"role": None, "content": "x"}, {"role": 1}])
def test_a_message_without_a_role_is_named(message: dict[str, object]) -> None:
    template = ChatTemplate("{{ messages[0]['role'] }}", bos_token="", eos_token="")
    with pytest.raises(TemplateError, match="message 1 has no role"):
        template.render([{"role": "user", "content": "a"}, message])
