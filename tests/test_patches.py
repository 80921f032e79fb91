"""The patch tool: an entry lands exactly where its anchor is, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.patches import (
    Patch,
    PatchError,
    anchor_hash,
    apply_patches,
    load_manifest,
    plan_patches,
)

ANCHOR = ["static void step(int n) {", "    prepare(n);"]
FILE = "src/step.c"

code_lines = st.text(alphabet="abcxyz(){};=+ \t", max_size=12)
surroundings = st.lists(code_lines.filter(lambda line: "step" not in line), max_size=12)
blanks = st.text(alphabet=" \t", max_size=5)


def entry(**changes: object) -> Patch:
    fields: dict[str, object] = {
        "id": "step-hook",
        "file": FILE,
        "lines": len(ANCHOR),
        "sha256": anchor_hash(ANCHOR),
        "place": "after",
        "text": "    orin_hook(n);",
    }
    return Patch(**{**fields, **changes})  # type: ignore[arg-type]


def write(root: Path, lines: list[str]) -> Path:
    path = root / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@given(before=surroundings, after=surroundings, indent=blanks, trailing=blanks)
def test_an_anchor_is_found_wherever_it_moved_and_however_it_is_indented(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[str],
    after: list[str],
    indent: str,
    trailing: str,
) -> None:
    root = tmp_path_factory.mktemp("moved")
    moved = [f"{indent}{line}{trailing}" for line in ANCHOR]
    path = write(root, [*before, *moved, *after])
    apply_patches([entry()], root)
    patched = path.read_text().splitlines()
    at = patched.index("    orin_hook(n);")
    assert patched[at - 3 : at - 1] == moved
    assert [line for line in patched if "orin" not in line] == [*before, *moved, *after]


@given(
    row=st.integers(0, len(ANCHOR) - 1), column=st.integers(0, 10), char=st.sampled_from("qQ7_-")
)
def test_an_altered_anchor_is_not_found_and_the_file_stays_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, row: int, column: int, char: str
) -> None:
    root = tmp_path_factory.mktemp("altered")
    altered = list(ANCHOR)
    altered[row] = altered[row][:column] + char + altered[row][column:]
    path = write(root, altered)
    text = path.read_text()
    with pytest.raises(PatchError, match=r"step-hook.*found 0 times in src/step\.c"):
        apply_patches([entry()], root)
    assert path.read_text() == text


@given(between=surroundings, copies=st.integers(2, 4))
def test_an_anchor_that_is_there_more_than_once_is_refused(
    tmp_path_factory: pytest.TempPathFactory, between: list[str], copies: int
) -> None:
    root = tmp_path_factory.mktemp("twice")
    write(root, [*ANCHOR, *between] * copies)
    with pytest.raises(PatchError, match=f"found {copies} times"):
        apply_patches([entry()], root)


def test_what_is_inserted_is_marked_as_ours(tmp_path: Path) -> None:
    path = write(tmp_path, ANCHOR)
    apply_patches([entry()], tmp_path)
    assert path.read_text().splitlines() == [
        *ANCHOR,
        "/* >>> orin-llm: step-hook */",
        "    orin_hook(n);",
        "/* <<< orin-llm: step-hook */",
    ]


def test_replace_changes_one_token_and_keeps_the_rest_of_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, ["class cache {", "  private: int n;", "};"])
    lines = ["class cache {", "  private: int n;"]
    apply_patches(
        [entry(sha256=anchor_hash(lines), place="replace", token="private:", text="protected:")],
        tmp_path,
    )
    assert "  protected: /* orin-llm: step-hook */ int n;\n" in path.read_text()


@pytest.mark.parametrize("token", ["absent", "n"])
def test_a_token_that_is_not_in_the_anchor_exactly_once_is_refused(
    tmp_path: Path, token: str
) -> None:
    write(tmp_path, ANCHOR)
    with pytest.raises(PatchError, match=f"token '{token}' is found"):
        apply_patches([entry(place="replace", token=token, text="x")], tmp_path)


def test_entries_of_one_file_do_not_disturb_one_another(tmp_path: Path) -> None:
    """An entry whose anchor holds the place of another one lands: both see upstream's text."""
    path = write(tmp_path, [*ANCHOR, "    run(n);", "}"])
    inner = entry(id="inner", lines=1, sha256=anchor_hash(ANCHOR[:1]), text="first();")
    outer = entry(id="outer", lines=3, sha256=anchor_hash([*ANCHOR, "run(n);"]), text="last();")
    above = entry(id="above", place="before", text="top();")
    apply_patches([outer, inner, above], tmp_path)
    ours = [line for line in path.read_text().splitlines() if "orin-llm" not in line]
    assert ours == ["top();", ANCHOR[0], "first();", ANCHOR[1], "    run(n);", "last();", "}"]


def test_either_every_entry_lands_or_nothing_is_written(tmp_path: Path) -> None:
    path = write(tmp_path, ANCHOR)
    missing = entry(id="gone", file="src/gone.c")
    altered = entry(id="altered", sha256="0" * 64)
    with pytest.raises(PatchError) as raised:
        apply_patches([entry(), missing, altered], tmp_path)
    assert "gone: src/gone.c does not exist" in str(raised.value)
    assert "altered: its anchor" in str(raised.value)
    assert "step-hook" not in str(raised.value)
    assert path.read_text().splitlines() == ANCHOR


def test_carriage_returns_and_bytes_of_other_encodings_survive(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_bytes(b"// caf\xe9\r\n" + "\r\n".join(ANCHOR).encode() + b"\r\n")
    apply_patches([entry()], tmp_path)
    assert path.read_bytes().startswith(b"// caf\xe9\r\nstatic void")


GOOD = """
[[patch]]
id = "a"
file = "f.c"
lines = 1
sha256 = "00"
place = "after"
text = "x"
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("lines = 1", "lines = 0"), "lines is 0"),
        (("lines = 1", 'lines = "1"'), "expected lines = a int"),
        (('id = "a"', ""), "expected id"),
        (("after", "under"), "place is 'under'"),
        (("after", "replace"), "token"),
        (('text = "x"', ""), "either text or text_file"),
        (('text = "x"', 'text = "x"\ntxt = "y"'), "unknown key txt"),
        (("[[patch]]", "[[patch]"), "manifest.toml"),
        ((GOOD, GOOD + GOOD), "two patches have the id 'a'"),
    ],
)
def test_a_malformed_manifest_is_refused_by_name(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    manifest = tmp_path / "manifest.toml"
    manifest.write_text(GOOD)
    assert [patch.id for patch in load_manifest(manifest)] == ["a"]
    manifest.write_text(GOOD.replace(*change))
    with pytest.raises(PatchError, match=message):
        load_manifest(manifest)


def test_text_can_lie_in_a_file_beside_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "hook.inc").write_text("hook();\n")
    manifest = tmp_path / "manifest.toml"
    manifest.write_text(GOOD.replace('text = "x"', 'text_file = "hook.inc"'))
    assert load_manifest(manifest)[0].text == "hook();"


def test_planning_writes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, ANCHOR)
    patched, problems = plan_patches([entry()], tmp_path)
    assert not problems
    assert "orin_hook" in patched[path]
    assert path.read_text().splitlines() == ANCHOR
