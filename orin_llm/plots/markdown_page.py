"""Markdown as our reports write it, as a part of a page."""

from __future__ import annotations

import re

from orin_llm.plots.page import escape, markdown_table_html

_INLINE = re.compile(r"\*\*(?P<bold>.+?)\*\*|`(?P<code>[^`]+)`")
_HEADING = re.compile(r"(#{1,6}) +(.*)")


def markdown_html(text: str) -> str:
    """Paragraphs, headings, lists, tables, code blocks, and in them **bold** and `code`.

    A paragraph that begins in bold is a warning; two spaces at the end of a line break it. All
    other signs stand for themselves.
    """
    return "\n".join(_block(block) for block in _blocks(text))


def _blocks(text: str) -> list[str]:
    """What blank lines part; code in a fence stays together."""
    parts = re.split(r"(?ms)^(```.*?^```)[ \t]*$", text)
    return [
        block
        for number, part in enumerate(parts)
        for block in ([part] if number % 2 else re.split(r"\n[ \t]*\n", part))
        if block.strip()
    ]


def _block(block: str) -> str:
    lines = block.strip("\n").split("\n")
    first = lines[0].strip()
    if first.startswith("```"):
        return f"<pre>{escape(chr(10).join(lines[1:-1]))}</pre>"
    if all(line.startswith("    ") for line in lines):
        return f"<pre>{escape(chr(10).join(line[4:] for line in lines))}</pre>"
    if heading := _HEADING.fullmatch(first):
        level = min(len(heading[1]) + 1, 6)  # the page's title is the first
        rest = _block("\n".join(lines[1:])) if lines[1:] else ""
        return f"<h{level}>{_inline(heading[2])}</h{level}>{rest}"
    if first.startswith("|"):
        return _table(block)
    if first.startswith("- "):
        return _list(lines)
    kind = ' class="warning"' if first.startswith("**") else ""
    return f"<p{kind}>{_lines(lines)}</p>"


def _table(block: str) -> str:
    try:
        return markdown_table_html(block)
    except ValueError:  # a line that begins with a bar, and nothing more
        return f"<p>{_inline(block.strip())}</p>"


def _list(lines: list[str]) -> str:
    entries: list[list[str]] = []
    for line in lines:
        if line.startswith("- "):
            entries.append([line[2:]])
        else:
            entries[-1].append(line)
    return f"<ul>{''.join(f'<li>{_lines(entry)}</li>' for entry in entries)}</ul>"


def _lines(lines: list[str]) -> str:
    return "\n".join(
        _inline(line.strip()) + ("<br>" if line.endswith("  ") and number < len(lines) else "")
        for number, line in enumerate(lines, start=1)
    )


def _inline(text: str) -> str:
    html, end = "", 0
    for found in _INLINE.finditer(text):
        html += escape(text[end : found.start()])
        bold, code = found["bold"], found["code"]
        html += f"<strong>{_inline(bold)}</strong>" if bold else f"<code>{escape(code)}</code>"
        end = found.end()
    return html + escape(text[end:])
