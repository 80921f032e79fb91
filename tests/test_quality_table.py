"""scripts/quality_table.py makes all figures of docs/quality.md, and what it has made is kept."""

from __future__ import annotations

import sys
from pathlib import Path

from gguf_bytes import tiny_llama
from processes import environment, run

SCRIPT = Path(__file__).parents[1] / "scripts" / "quality_table.py"


def test_it_measures_weights_and_caches_and_keeps_what_it_measured(tmp_path: Path) -> None:
    model, work = tmp_path / "tiny.gguf", tmp_path / "work"
    model.write_bytes(tiny_llama(n_embd=128, n_ctx=512).data)
    settings = ("--model", str(model), "--work", str(work), "--windows", "1", "--threads", "1")
    command = [sys.executable, str(SCRIPT), *settings]

    first = run(command, env=environment())
    assert first.returncode in (0, 1), first.stderr  # a random model may break a bound
    assert (first.returncode == 1) == ("not kept: " in first.stderr)
    rows = [line.split(" | ") for line in first.stdout.splitlines() if line.startswith("| ")]
    names = [row[0].removeprefix("| ") for row in rows]
    assert names == [
        *("Weights", "F16 (baseline)", "Q4_K_M", "Q4_K_M, importance matrix"),
        *("KV cache (keys:values)", "f16", "q8_0", "q8_0:q4_0", "q4_0:q8_0", "q4_0"),
    ]
    assert len({len(row) for row in rows}) == 1
    # Widened: 2 layers of 4 heads of 32 keys and 32 values, of 2, 34/32 and 18/32 bytes each.
    assert [int(row[1]) for row in rows[5:]] == [1024, 544, 416, 416, 288]

    second = run(command, env=environment())
    assert second.stdout == first.stdout
    assert "orin-llm " not in second.stderr
