"""Results that were written before: what `-o json` and `-o jsonl` gave, as a report again."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from orin_llm.bench.from_json import WrongMember, from_json
from orin_llm.bench.result import Report, Result
from orin_llm.bench.start_result import StartResult
from orin_llm.errors import ResultFileError, UsageError

MAX_BYTES = 256 << 20  # of a file; a result of 400 points and sensors takes some tens of kilobytes
_WANTED = "expected what `orin-llm bench -o json` or `-o jsonl` writes"
_OF_RESULTS = {
    *("results", "sweeps", "versus"),
    *(one.name for kind in (Result, StartResult) for one in fields(kind)),
}


@dataclass(frozen=True)
class _Model:
    name: str
    quant: str | None
    parameters: int | None
    bytes: int | None
    fingerprint: str | None = None


@dataclass(frozen=True)
class _Machine:
    cpu: str
    architecture: str
    cores: int
    device: str | None = None


@dataclass(frozen=True)
class _Stamp:
    """What is written in another way than as it is."""

    gpu_cap_mhz: float | None = None
    emc_cap_mhz: float | None = None


@dataclass(frozen=True)
class _Start:
    hottest_c: float | None = None


@dataclass(frozen=True)
class _Environment:
    """What reports show of it; the rest may be anything."""

    version: str
    commit: str | None
    llama_cpp: str
    model: _Model
    machine: _Machine
    stamp: _Stamp = _Stamp()
    at_start: _Start = _Start()


def read_results(path: Path) -> Report[Any]:
    """The report in a file. Members that it does not know are left out.

    Raises:
        UsageError: it cannot be read.
        ResultFileError: it holds something else, or a part of it is missing or damaged.
    """
    objects = _objects(_text(path), path)
    environment = {k: v for k, v in objects[0].items() if k not in _OF_RESULTS}
    found = []
    for number, (where, data) in enumerate(_results(objects, path)):
        try:
            found.append(_result(data))
        except WrongMember as wrong:
            _refuse(path, f"{where or f'results[{number}]'}: {wrong}")
    if not found:
        _refuse(path, "it holds no results")
    try:
        from_json(_Environment, environment)
    except WrongMember as wrong:
        _refuse(path, str(wrong))
    return Report(environment, tuple(found))


def _result(data: dict[str, Any]) -> Result | StartResult:
    is_start = "latency" not in data and "completed" not in data
    result = from_json(StartResult, data) if is_start else from_json(Result, data)
    if not isinstance(result.engine.get("name"), str):
        raise WrongMember("engine.name is missing, or no text")
    return result


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}: name a file that `orin-llm bench -o "
            "json` wrote"
        ) from None
    if len(data) > MAX_BYTES:
        _refuse(path, f"it has more than {MAX_BYTES >> 20} MiB")
    if not data.strip():
        _refuse(path, "it is empty")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(path, f"it is no text (byte {error.start})")


def _objects(text: str, path: Path) -> list[dict[str, Any]]:
    """The one object of a JSON file, or those of the lines of JSON lines."""
    try:
        found = [json.loads(text, parse_constant=_no_number)]
    except (ValueError, RecursionError) as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if not text.lstrip().startswith("{"):
            _refuse(path, "it is no JSON")
        try:
            found = [json.loads(line, parse_constant=_no_number) for line in lines]
        except (ValueError, RecursionError):
            _refuse(path, f"damaged JSON: {error}")
    if not all(isinstance(one, dict) for one in found):
        _refuse(path, "it is no object")
    return found


def _results(objects: list[dict[str, Any]], path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each result with the line that it is in, or ""."""
    if len(objects) == 1 and "results" in objects[0]:
        results = objects[0]["results"]
        if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
            _refuse(path, "results is no array of objects")
        return [("", one) for one in results]
    if not all("label" in one for one in objects):
        _refuse(path, "it holds no results")
    return [(f"line {number}", one) for number, one in enumerate(objects, 1)]


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _refuse(path: Path, why: str) -> NoReturn:
    raise ResultFileError(f"{path}: {why}: {_WANTED}")
