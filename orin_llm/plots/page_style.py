"""How a page looks: one column, both grounds, tables and charts that scroll, print in black."""

from __future__ import annotations

from orin_llm.plots.colours import css_variables

_LIGHT = (
    "--ground: #ffffff; --ink: #1f2328; --soft: #57606a; --line: #d4d9df; --head: #f3f5f7; "
    "--link: #1f5fd0; "
    f"--warn: #fff4d6; --warn-line: #c98a00; {css_variables(dark=False)}"
)
_DARK = (
    "--ground: #14181d; --ink: #dfe4ea; --soft: #9aa4af; --line: #343c46; --head: #1d232a; "
    "--link: #8db4ff; "
    f"--warn: #33290f; --warn-line: #d9a93a; {css_variables(dark=True)}"
)

STYLE = f"""
:root {{ {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }}
main {{ max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }}
h1 {{ font-size: 1.7rem; line-height: 1.25; margin: .5rem 0 1rem; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-bottom: .3rem;
  border-bottom: 1px solid var(--line); }}
h3 {{ font-size: 1rem; margin: 1.5rem 0 .5rem; }}
a {{ color: var(--link); }}
nav a {{ margin-right: 1.25rem; }}
pre, code {{ font: .875em ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
pre {{ background: var(--head); padding: .6rem .75rem; overflow-x: auto; }}
p {{ margin: .6rem 0; max-width: 46rem; overflow-wrap: anywhere; }}
figcaption {{ color: var(--soft); font-size: .9rem; }}
.warning {{ background: var(--warn); border-left: 4px solid var(--warn-line);
  padding: .5rem .75rem; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 0; }}
dt {{ color: var(--soft); }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
.scroll {{ overflow-x: auto; max-width: 100%; }}
table {{ border-collapse: collapse; font-size: .9rem; margin: .75rem 0;
  font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .75rem; text-align: left; white-space: nowrap;
  border-bottom: 1px solid var(--line); }}
th {{ background: var(--head); font-weight: 600; }}
.number {{ text-align: right; }}
figure {{ margin: 1.25rem 0; }}
svg.chart {{ display: block; width: 100%; min-width: 40rem; height: auto; }}
svg.chart text {{ font-family: inherit !important; }}
@media (max-width: 40rem) {{
  dl {{ grid-template-columns: 1fr; gap: 0; }}
  dd {{ margin-bottom: .5rem; }}
}}
@media print {{
  nav {{ display: none; }}
  main {{ max-width: none; padding: 0; }}
  body {{ font-size: 10pt; }}
  .scroll {{ overflow: visible; }}
  table {{ font-size: 7.5pt; }}
  th, td {{ white-space: normal; padding: .15rem .3rem; }}
  svg.chart {{ min-width: 0; }}
  figure, tr {{ break-inside: avoid; }}
  h2 {{ break-after: avoid; }}
}}
"""
