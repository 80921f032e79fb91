"""What quantizing refuses, before anything is written; and files that change under it."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import architectures
import numpy as np
import pytest
from gguf_bytes import Shape, tiny_llama_bytes, vocab_only
from load_support import break_value

from orin_llm._native import check_gguf
from orin_llm.errors import ModelFileError, OrinError, UsageError
from orin_llm.models import quantize_plan
from orin_llm.models.quantize import usable_threads, write
from orin_llm.models.quantize_keep import Keep
from orin_llm.models.quantize_plan import Importance, Request, make_plan
from orin_llm.models.quantize_types import FILE_TYPES, file_type_named
from orin_llm.models.reporter import Progress, Reporter

WIDE = Shape(n_embd=256, n_ff=256)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return model(tmp_path / "wide.gguf", tiny_llama_bytes(shape=WIDE))


@pytest.fixture
def narrow(tmp_path: Path) -> Path:
    return model(tmp_path / "narrow.gguf", tiny_llama_bytes())


def model(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def request(source: Path, kind: str = "Q4_K_M", *keep: str, **options: Any) -> Request:
    return Request(source, FILE_TYPES[kind], Keep.parse(keep), **options)


@pytest.mark.parametrize(
    ("kind", "keep", "message"),
    [
        ("Q4_K_M", ["foo=Q8_0"], "no tensor's name has 'foo' in it"),
        ("Q4_K_M", ["attn_(=Q8_0"], r"'attn_\(' is not a regular expression"),
        ("Q4_K_M", ["attn_v=Q4_K_M"], "cannot have the type Q4_K_M"),
        ("Q4_K_M", ["attn_v=Q8_K"], "cannot have the type Q8_K"),
        ("Q4_K_M", ["attn_v=I32"], "cannot have the type I32"),
        ("F16", ["attn_v=Q8_0"], "attn_v=… has no meaning with F16"),
        ("COPY", ["output=Q8_0"], "no meaning with COPY"),
    ],
)
def test_a_type_that_cannot_be_kept_is_refused(
    wide: Path, kind: str, keep: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(request(wide, kind, *keep))


@pytest.mark.parametrize("rule", ["foo", "=Q8_0", "foo=", "output=Q8_0 output=Q6_K"])
def test_a_rule_that_is_not_name_and_type_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match="--keep"):
        Keep.parse(rule.split())


def test_an_output_type_that_would_be_ignored_is_refused(wide: Path) -> None:
    with pytest.raises(UsageError, match="has no output.weight; name token_embd"):
        make_plan(request(wide, "Q4_K_M", "output=Q8_0", pure=True))


def test_a_table_whose_rows_do_not_divide_by_the_blocks_is_refused(narrow: Path) -> None:
    with pytest.raises(UsageError, match="rows of 64 weights do not divide by blocks of 256"):
        make_plan(request(narrow, "Q4_K_M", "token_embd=Q6_K"))


def test_a_kind_without_a_type_for_these_rows_is_refused(narrow: Path) -> None:
    with pytest.raises(ModelFileError, match="no tensor type fallback is defined for type q1_0"):
        make_plan(request(narrow, "Q1_0"))


def test_an_unknown_kind_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"choose one of: Q4_0, .*Q4_K_M.*, COPY"):
        file_type_named("Q9_K")
    assert file_type_named("q5_k") is FILE_TYPES["Q5_K_M"]


def test_a_quantized_model_is_not_quantized_again_unless_told(tmp_path: Path) -> None:
    source = model(tmp_path / "q8.gguf", architectures.llama().image("q8_0").data)
    with pytest.raises(ModelFileError, match=r"quantized already \(16 Q8_0 tensors would change\)"):
        make_plan(request(source))
    assert make_plan(request(source, allow_requantize=True)).tensors
    assert make_plan(request(source, "Q8_0")).tensors  # nothing changes


def test_a_vocabulary_is_refused(tmp_path: Path) -> None:
    source = model(tmp_path / "vocab.gguf", vocab_only().data)
    with pytest.raises(ModelFileError, match="no weights"):
        make_plan(request(source))


def test_a_nan_in_the_model_names_its_tensor(wide: Path) -> None:
    break_value(wide, wide.stat().st_size - 96)
    with pytest.raises(ModelFileError, match="'blk.1.ffn_down.weight' has invalid data"):
        write(make_plan(request(wide)), wide.with_name("out.gguf"))
    assert [file.name for file in wide.parent.iterdir()] == ["wide.gguf"]


# -- importance ---------------------------------------------------------------------------------


def importance(**weights: np.ndarray[Any, Any]) -> Importance:
    return Importance("i.gguf", {name.replace("__", "."): w for name, w in weights.items()})


@pytest.mark.parametrize(
    ("kind", "keep"),
    [("IQ2_XXS", []), ("Q2_K_S", []), ("Q4_K_M", ["token_embd=IQ1_S"]), ("IQ3_XXS", [])],
)
def test_tiny_types_need_importance(wide: Path, kind: str, keep: list[str]) -> None:
    with pytest.raises(
        UsageError, match=f"{kind} needs an importance matrix: .*`orin-llm imatrix`"
    ):
        make_plan(request(wide, kind, *keep))


def test_tiny_types_need_importance_for_every_tensor(wide: Path) -> None:
    given = importance(blk__0__attn_q__weight=np.ones(256, np.float32))
    with pytest.raises(UsageError, match=r"i\.gguf has none for it"):
        make_plan(request(wide, "IQ2_XXS", importance=given))


@pytest.mark.parametrize("size", [255, 512])
def test_importance_of_another_width_is_refused(wide: Path, size: int) -> None:
    given = importance(blk__0__attn_q__weight=np.ones(size, np.float32))
    with pytest.raises(ModelFileError, match=f"has 256 inputs, it has values for {size}"):
        make_plan(request(wide, importance=given))


def test_importance_of_other_tensors_is_refused(wide: Path) -> None:
    given = importance(blk__9__attn_q__weight=np.ones(256, np.float32))
    with pytest.raises(ModelFileError, match="has none of its tensors"):
        make_plan(request(wide, importance=given))


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_importance_that_is_no_mean_square_is_refused(wide: Path, value: float) -> None:
    given = importance(blk__0__attn_q__weight=np.full(256, value, np.float32))
    with pytest.raises(ModelFileError, match="not all finite and positive"):
        make_plan(request(wide, importance=given))


# -- the new file, and the model while it is read ------------------------------------------------


@pytest.fixture
def many_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress after every few rows."""
    monkeypatch.setattr(quantize_plan, "_BUFFER_BYTES", 1 << 14)


class Acting(Reporter):
    """Does something once, when some of the work is done."""

    def __init__(self, action: Any) -> None:
        self.action = action
        self.seen: list[int] = []

    def progress(self, progress: Progress) -> None:
        self.seen.append(progress.done)
        if self.action is not None and progress.done > progress.total / 2:  # type: ignore[operator]
            action, self.action = self.action, None
            action()


def test_progress_counts_the_bytes_of_the_model(wide: Path, many_slabs: None) -> None:
    plan = make_plan(request(wide))
    acting = Acting(None)
    write(plan, wide.with_name("out.gguf"), reporter=acting)
    assert acting.seen == sorted(acting.seen) and len(set(acting.seen)) > 50
    assert plan.source_bytes - plan.tensors[-1].bytes <= acting.seen[-1] <= plan.source_bytes


def test_what_the_reporter_raises_ends_the_work_and_leaves_nothing(
    wide: Path, many_slabs: None
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(make_plan(request(wide)), wide.with_name("out.gguf"), reporter=Acting(interrupt))
    assert [file.name for file in wide.parent.iterdir()] == ["wide.gguf"]


CUT = """
import os, sys
print("ready", flush=True)
os.truncate(sys.argv[1], 1 << 19)
"""


def test_a_model_that_another_process_cuts_is_an_error(wide: Path, many_slabs: None) -> None:
    children = []
    waits = may_lease(wide)

    def cut() -> None:
        child = subprocess.Popen(
            [sys.executable, "-c", CUT, str(wide)], stdout=subprocess.PIPE, text=True
        )
        children.append(child)
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        if not waits:
            child.wait()
        time.sleep(0.5)  # else it waits for us, as soon as it has come to its next instruction

    with pytest.raises(ModelFileError, match="changed while it was read"):
        write(make_plan(request(wide)), wide.with_name("out.gguf"), reporter=Acting(cut))
    with children[0]:
        assert children[0].wait(timeout=60) == 0
    assert wide.stat().st_size == 1 << 19
    assert [file.name for file in wide.parent.iterdir()] == ["wide.gguf"]


def may_lease(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            return False
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return True


def test_a_file_that_cannot_be_written_to_its_end_is_an_error(wide: Path) -> None:
    out = wide.with_name("out.gguf")
    plan = make_plan(request(wide, "Q8_0"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (plan.file_bytes - 10_000, hard))
    try:
        with pytest.raises(OrinError, match=r"out\.gguf could not be written to its end"):
            write(plan, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.name for file in wide.parent.iterdir()] == ["wide.gguf"]


def test_the_model_itself_and_what_is_no_file_are_not_replaced(wide: Path) -> None:
    plan = make_plan(request(wide))
    with pytest.raises(UsageError, match="is the model itself"):
        write(plan, wide, force=True)
    pipe = wide.with_name("pipe")
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not a file that another one may replace"):
        write(plan, pipe, force=True)
    out = model(wide.with_name("out.gguf"), b"old")
    with pytest.raises(UsageError, match="exists; pass --force"):
        write(plan, out)
    assert out.read_bytes() == b"old"
    write(plan, out, force=True)
    assert out.read_bytes()[:4] == b"GGUF"


def test_a_whole_model_may_have_the_name_of_a_part(wide: Path) -> None:
    part = wide.rename(wide.with_name("wide-00001-of-00003.gguf"))
    plan = make_plan(request(part))
    assert plan.files == (part,)
    write(plan, part.with_name("out.gguf"))


def test_no_more_threads_than_the_hardware_has(wide: Path) -> None:
    """llama.cpp would start them all, and end the process where one cannot be started."""
    done = write(make_plan(request(wide)), wide.with_name("out.gguf"), threads=1_000_000)
    assert done.threads <= (os.cpu_count() or 1)
    assert usable_threads(1) == 1


def test_a_full_disk_is_noticed_before_the_work(
    wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(wide)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OrinError, match="not enough room"):
        write(make_plan(request(wide)), wide.with_name("out.gguf"))


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("place", [0, 1, 7, 8, 31, -1, -2, -9])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(
    wide: Path, kind: str, place: int, value: float
) -> None:
    source = wide.with_name("source.gguf")
    write(make_plan(request(wide, kind)), source)
    name = "blk.1.ffn_up.weight"
    tensor = next(t for t in check_gguf(source).tensors if t.name == name)
    width = 4 if kind == "F32" else 2
    bits = np.float32(value).view(np.uint32)
    half = np.float16(value).view(np.uint16)
    word = {"F32": bits, "F16": half, "BF16": np.uint16(bits >> 16)}[kind]
    with source.open("r+b") as file:
        file.seek(tensor.offset + place * width + (tensor.nbytes if place < 0 else 0))
        file.write(word.tobytes())
    with pytest.raises(ModelFileError, match=f"'{name}' has invalid data"):
        write(make_plan(request(source)), wide.with_name("out.gguf"))
