"""Writes golden.json: what transformers makes of the templates and cases in this folder.

Run it with transformers installed (no torch needed): python make_golden.py
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from unittest import mock

import jinja2
import transformers
from transformers.utils import chat_template_utils

HERE = Path(__file__).parent
NOW = datetime(2026, 7, 26, 12, 0)


def main() -> None:
    cases = json.loads((HERE / "cases.json").read_text("utf-8"))
    golden = []
    for path in sorted(HERE.glob("*.jinja")):
        for name, messages in cases["messages"].items():
            for number, given in enumerate(cases["variables"]):
                variables = dict(given)
                tools = cases["tools"] if variables.pop("with_tools", False) else None
                entry = {"template": path.name, "messages": name, "variables": number}
                try:
                    entry["text"] = render(path.read_text("utf-8"), messages, tools, variables)
                except jinja2.TemplateError as error:
                    entry["error"] = str(error)
                except TypeError:
                    entry["error"] = "TypeError"
                golden.append(entry)
    output = {"transformers": transformers.__version__, "golden": golden}
    text = json.dumps(output, ensure_ascii=False, indent=1)
    (HERE / "golden.json").write_text(text + "\n", "utf-8")


def render(source: str, messages: list, tools: list | None, variables: dict) -> str:
    with mock.patch.object(chat_template_utils, "datetime") as clock:
        clock.now.return_value = NOW
        rendered, _ = chat_template_utils.render_jinja_template(
            conversations=[chat_template_utils._normalize_chat_messages(messages)],
            tools=tools,
            chat_template=source,
            bos_token="<s>",
            eos_token="</s>",
            **variables,
        )
    return rendered[0]


if __name__ == "__main__":
    main()
