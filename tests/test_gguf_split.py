"""A model split over several files is read whole from its first part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from gguf_bytes import (
    Image,
    Shape,
    Tensor,
    Typed,
    model_metadata,
    model_tensors,
    spm_vocab,
    write_gguf,
)

from orin_llm._native import check_gguf
from orin_llm.errors import ModelFileError

SHAPE = Shape(n_embd=32, n_ff=32, n_vocab=16, n_layer=2)
TENSORS = model_tensors(SHAPE)


def numbers(part: int, n_parts: int, n_tensors: int = len(TENSORS)) -> dict[str, Typed]:
    return {
        "split.no": Typed("u16", part),
        "split.count": Typed("u16", n_parts),
        "split.tensors.count": Typed("i32", n_tensors),
    }


def first_part(tensors: Sequence[Tensor], n_parts: int = 2, **changes: Typed) -> Image:
    entries = {**model_metadata(SHAPE), **spm_vocab(SHAPE.n_vocab), **numbers(0, n_parts)}
    return write_gguf(entries | {name.replace("_", "."): v for name, v in changes.items()}, tensors)


def write_parts(folder: Path, *images: Image) -> Path:
    paths = [folder / f"m-{i + 1:05}-of-{len(images):05}.gguf" for i in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        path.write_bytes(image.data)
    return paths[0]


def test_all_parts_are_read_from_the_first(tmp_path: Path) -> None:
    parts = [first_part(TENSORS[:5], 3)]
    parts += [write_gguf(numbers(1, 3), TENSORS[5:9]), write_gguf(numbers(2, 3), TENSORS[9:])]
    header = check_gguf(write_parts(tmp_path, *parts))
    assert header.n_parts == 3
    assert header.file_bytes == sum(len(part.data) for part in parts)
    assert [tensor.name for tensor in header.tensors] == [tensor.name for tensor in TENSORS]
    assert [tensor.part for tensor in header.tensors] == [0] * 5 + [1] * 4 + [2] * (
        len(TENSORS) - 9
    )
    for tensor in header.tensors:
        assert tensor.offset == parts[tensor.part].marks[f"{tensor.name}/data"]


def test_another_part_points_to_the_first(tmp_path: Path) -> None:
    parts = first_part(TENSORS[:5]), write_gguf(numbers(1, 2), TENSORS[5:])
    first = write_parts(tmp_path, *parts)
    with pytest.raises(ModelFileError, match=r"part 2 of 2 .* '\*-00001-of-00002\.gguf'") as caught:
        check_gguf(first.with_name("m-00002-of-00002.gguf"))
    assert caught.value.field == "split.no"


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    path = write_parts(tmp_path, first_part(TENSORS), write_gguf(numbers(1, 2)))
    path.with_name("m-00002-of-00002.gguf").unlink()
    with pytest.raises(
        ModelFileError, match=r"part 2 of the model, .*-00002-of-00002\.gguf: there is"
    ):
        check_gguf(path)


def test_a_first_part_of_another_name_is_refused(tmp_path: Path) -> None:
    path = write_parts(tmp_path, first_part(TENSORS[:5]), write_gguf(numbers(1, 2), TENSORS[5:]))
    with pytest.raises(ModelFileError, match="must end in '-00001-of-00002.gguf'"):
        check_gguf(path.rename(tmp_path / "model.gguf"))


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (write_gguf(numbers(0, 2), TENSORS[5:]), r"split\.no'.*: 0, expected 1"),
        (write_gguf({}, TENSORS[5:]), r"split\.no': missing"),
        (write_gguf({"split.no": Typed("u32", 1)}, TENSORS[5:]), "of type u32, expected u16"),
        (write_gguf(numbers(1, 2), TENSORS[4:]), "the name is also in another part"),
        (write_gguf(numbers(1, 2), TENSORS[6:]), "tensors, but the parts hold"),
        (Image(write_gguf(numbers(1, 2), TENSORS[5:]).data[:-1], {}), "1 of .* bytes are missing"),
    ],
)
def test_a_broken_second_part_is_refused(second: Image, says: str, tmp_path: Path) -> None:
    path = write_parts(tmp_path, first_part(TENSORS[:5]), second)
    with pytest.raises(ModelFileError, match=says) as caught:
        check_gguf(path)
    assert caught.value.path == str(path)


def test_counts_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(first_part(TENSORS, split_count=Typed("u16", 1025)).data)
    with pytest.raises(ModelFileError, match=r"1025 parts, more than the limit of 1024"):
        check_gguf(path)


def test_one_part_of_one_is_a_whole_model(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(first_part(TENSORS, 1).data)
    assert check_gguf(path).n_parts == 1
