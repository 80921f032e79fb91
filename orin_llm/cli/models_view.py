"""What `orin-llm models` prints: tables and facts for people; `--json` does not come here."""

from __future__ import annotations

import sys

from orin_llm.cli.models_list import Listing
from orin_llm.cli.paragraphs import print_paragraph
from orin_llm.cli.render import tolerate_narrow_encoding
from orin_llm.cli.table import print_table
from orin_llm.host.units import counted, size_text
from orin_llm.models.describe import count_text
from orin_llm.models.fit import KEPT_FREE, Fit
from orin_llm.models.names import DEFAULT_MODEL
from orin_llm.models.show import Facts
from orin_llm.models.tables import TokenTable


def print_listing(listing: Listing) -> None:
    """The models as a table on stdout; what needs attention on stderr."""
    rows = []
    for m in listing.stored:
        origin = "registry" if m.source == m.name else m.source
        rows.append([m.name, size_text(m.bytes), m.quant, _tokens(m.context), origin])
    rows += [[name, "?", "?", "?", "damaged"] for name in listing.damaged]
    for e in listing.offered:
        rows.append([e.name, size_text(e.bytes), e.quant, _tokens(e.context), "not pulled"])
    if rows:
        print_table(["NAME", "SIZE", "QUANT", "CONTEXT", "FROM"], rows)
    for line in _notes(listing):
        print(line, file=sys.stderr)


def _tokens(context: int) -> str:
    return str(context) if context else "?"


def _notes(listing: Listing) -> list[str]:
    notes = [f"damaged: {problem}" for problem in listing.damaged.values()]
    if not listing.stored and not listing.damaged:
        notes.append(
            f"no models yet: `orin-llm models pull {DEFAULT_MODEL}` fetches the default "
            "one, `orin-llm models list --all` shows what there is"
        )
    for partial in listing.store.partials():
        notes.append(
            f"unfinished: {partial.name}, {size_text(partial.bytes)} so far (pull it again to "
            "go on, or rm it)"
        )
    loose = listing.store.loose_files()
    if loose:
        notes.append(
            f"{len(loose)} .gguf files in {listing.store.root} are not part of the store: run "
            "them by their path, or add them with `orin-llm models pull PATH`"
        )
    return notes


def print_facts(facts: Facts) -> None:
    """All that is known of a model, one fact a line."""
    tolerate_narrow_encoding(sys.stdout)
    types = ", ".join(
        f"{share.type} {_percent(share.bytes, facts.size)} in {counted(share.tensors, 'tensor')}"
        for share in facts.types
    )
    window = f"; some layers look back {facts.window} tokens only" if facts.window else ""
    state = f"; fixed state per sequence {size_text(facts.state)}" if facts.state else ""
    rows = [
        ("file", str(facts.path)),
        ("model", facts.title or "not named"),
        ("architecture", f"{facts.architecture}, {facts.layers} layers"),
        ("parameters", count_text(facts.parameters)),
        ("quantization", f"{facts.quant}: {types}"),
        ("size", size_text(facts.size)),
        ("context", f"{facts.context} tokens" if facts.context else "not stated"),
        ("chat template", _template(facts)),
        ("licence", facts.licence or "not stated in the file"),
        *_table_rows(facts),
        ("read per token", f"{size_text(facts.read_per_token)} of weights at decode"),
        ("KV per token", f"{size_text(facts.kv_per_token)} ({facts.fit.kv_type}){window}{state}"),
    ]
    for name, value in rows:
        print_paragraph(value, name, 16)
    print()
    for text in fit_lines(facts.fit):
        print(text)


def _table_rows(facts: Facts) -> list[tuple[str, str]]:
    if facts.problem:
        return [("problem", facts.problem)]
    if facts.tables is None:
        return []
    embedding, output = facts.tables.embedding, facts.tables.output
    rows = [("embedding", f"{_table(embedding)}; {_read(embedding, facts)}")]
    if output is None:
        rows.append(("output", "none: this model computes no logits"))
    elif not facts.tables.tied:
        rows.append(("output", f"{_table(output)}; {_read(output, facts)}"))
    else:
        copy = f", in a second copy on {_place(output)}" if facts.tables.copied else ""
        rows.append(("output", f"the embedding's table (tied){copy}; {_read(output, facts)}"))
    return rows


def _table(table: TokenTable) -> str:
    shape = " × ".join(str(size) for size in reversed(table.shape))
    return f"{table.type} {shape}, {size_text(table.size)} on {_place(table)}"


def _place(table: TokenTable) -> str:
    where = "the CPU" if table.device == "cpu" else table.device
    return where + (", repacked for its dot products" if table.repacked else "")


def _read(table: TokenTable, facts: Facts) -> str:
    if table.read_per_token < table.size:
        return f"a token reads {size_text(table.read_per_token)}, one row"
    return f"a token reads all of it, {_percent(table.size, facts.read_per_token)} of what it reads"


def _percent(part: int, whole: int) -> str:
    return "<1 %" if 200 * part < whole else f"{100 * part / whole:.0f} %"


def _template(facts: Facts) -> str:
    if facts.template is None:
        return "none in the file"
    return ", ".join(facts.template) or "plain"


def fit_lines(fit: Fit) -> list[str]:
    """The memory arithmetic, line by line, and what follows from it."""
    per_sequence = fit.kv + fit.logits
    sums = [
        ("available", fit.budget.bytes, fit.budget.place),
        ("kept free", fit.budget.bytes - fit.usable, f"{KEPT_FREE:.0%} of it"),
        ("weights", fit.weights, "all tensors"),
        *([("table's copy", fit.table_copy, "of the embedding")] if fit.table_copy else []),
        ("activations", fit.activations, f"estimate, for chunks of {fit.chunk_size} tokens"),
        ("per sequence", per_sequence, f"KV ({fit.kv_type}) of {fit.ctx} tokens, and its logits"),
    ]
    lines = [f"{name:<15} {size_text(size):>9}   {what}" for name, size, what in sums]
    if fit.fits:
        end = f"fits: {fit.sequences} sequences of {fit.ctx} tokens"
        lines.append(f"{end} ({size_text(fit.left)} left / {size_text(per_sequence)})")
    else:
        short = size_text(per_sequence - fit.left)
        lines.append(f"does not fit: {short} short for one sequence of {fit.ctx} tokens")
    return lines
