"""Studies on disk: every trial is kept, and a search goes on where it ended."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_board import LARGE_SPACE, MAXN, SimulatedBoard
from tune_support import BEST, SMALL, TTFT, TableBench, by_value, search

from orin_llm.errors import OrinError, UsageError
from orin_llm.tune.goal import Constraints, Goal
from orin_llm.tune.knobs import Candidate, Knob, Space
from orin_llm.tune.outcome import Trial
from orin_llm.tune.search import Tuner
from orin_llm.tune.study import Study

ABOUT = {"model": "abc", "board": "p3701-0005"}


def opened(path: Path, space: Space = SMALL, goal: Goal = TTFT, **about: str) -> Study:
    return Study.open(path, space, goal, {**ABOUT, **about})


OF_BOARD = Space(
    (
        Knob("chunk_size", (256, 512), 512),
        Knob("page_size", (16,), 16),
        Knob("max_batch", (16,), 16),
    )
)


class Stops(TableBench):
    """Ctrl-C at one repetition."""

    def __init__(self, at: int) -> None:
        super().__init__(self._one)
        self._at = at

    def _one(self, candidate: Candidate, done: int) -> float:
        if done == self._at:
            self._at = -1
            raise KeyboardInterrupt
        return by_value(BEST)(candidate, done)


@pytest.mark.parametrize("stop_at", [1, 9, 26])
def test_a_search_goes_on_where_it_was_stopped_and_measures_nothing_twice(
    tmp_path: Path, stop_at: int
) -> None:
    whole = TableBench(by_value(BEST))
    expected = search(whole)[0].outcome()
    bench = Stops(stop_at)
    with opened(tmp_path / "study.db") as study, pytest.raises(KeyboardInterrupt):
        search(bench, study=study)
    kept = bench.done
    with opened(tmp_path / "study.db") as study:
        outcome = search(bench, study=study)[0].outcome()
    assert outcome.settings == expected.settings and outcome.decision == expected.decision
    # Repetitions of a measurement that was stopped in the middle are lost, no others.
    assert whole.done <= bench.done <= whole.done + 2 and kept >= stop_at
    assert [t.candidate for t in outcome.trials] == [t.candidate for t in expected.trials]
    assert [t.number for t in outcome.trials] == list(range(1, len(outcome.trials) + 1))


def test_a_finished_search_is_told_again_without_measuring(tmp_path: Path) -> None:
    with opened(tmp_path / "study.db") as study:
        first = search(TableBench(by_value(BEST)), study=study)[0].outcome()
    again = TableBench(by_value({}))
    with opened(tmp_path / "study.db") as study:
        outcome = search(again, study=study)[0].outcome()
    assert again.asked == [] and outcome.settings == first.settings
    with opened(tmp_path / "study.db") as study:
        assert [t.number for t in study.trials] == [t.number for t in first.trials]
    assert outcome.elapsed_s == pytest.approx(first.elapsed_s)


def test_trials_of_fewer_repetitions_than_are_wanted_now_are_measured_anew(tmp_path: Path) -> None:
    few, more = TableBench(by_value(BEST)), TableBench(by_value(BEST))
    with opened(tmp_path / "study.db") as study:
        search(few, study=study, full=True, repetitions=2)
    with opened(tmp_path / "study.db") as study:
        search(more, study=study, full=True, repetitions=3)
    assert more.done >= 5 * 3


def test_a_search_of_a_large_space_goes_on_with_the_same_suggestions(tmp_path: Path) -> None:
    goal = Goal("balanced")
    board = SimulatedBoard(MAXN)
    expected = search(board, LARGE_SPACE, goal, most_trials=12)[0].outcome()
    half = SimulatedBoard(MAXN)
    with opened(tmp_path / "s.db", LARGE_SPACE, goal) as study:
        tuner = Tuner(LARGE_SPACE, goal, half, study, None)
        trials = iter(tuner.run())
        for _ in range(10):
            next(trials)
    with opened(tmp_path / "s.db", LARGE_SPACE, goal) as study:
        outcome = search(half, LARGE_SPACE, goal, study, most_trials=12)[0].outcome()
    assert outcome.settings == expected.settings
    assert len(half.measured) == len(board.measured)


def test_a_trial_survives_json(tmp_path: Path) -> None:
    with opened(tmp_path / "study.db", OF_BOARD) as study:
        _, trials = search(SimulatedBoard(MAXN, 0.01), OF_BOARD, study=study)
    for trial in trials:
        assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial


def test_a_study_lies_where_it_was_asked_for_whatever_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=ro&x#%41.db"
    with opened(path) as study:
        search(TableBench(by_value(BEST)), study=study)
    assert {p.name for p in tmp_path.iterdir()} == {path.name, f"{path.name}.lock"}
    with opened(path) as study:
        assert len(study.trials) > 10


def test_a_study_can_be_read_with_optuna(tmp_path: Path) -> None:
    import optuna

    with opened(tmp_path / "study.db") as study:
        search(TableBench(by_value(BEST)), study=study)
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    (name,) = optuna.study.get_all_study_names(storage)
    loaded = optuna.load_study(study_name=name, storage=storage)
    assert loaded.best_trial.params == {"chunk_size": 256, "page_size": 32}
    assert loaded.best_value == pytest.approx(0.72)


@pytest.mark.parametrize(
    ("space", "goal", "about", "told"),
    [
        (SMALL, TTFT, {"board": "p3701-0004"}, "board: p3701-0005 there, p3701-0004 now"),
        (SMALL, Goal("tpot"), {}, "goal: ttft there, tpot now"),
        (SMALL, Goal("ttft", Constraints(max_tpot_ms=5)), {}, "max_tpot_ms: None there, 5 now"),
        (Space(SMALL.knobs[:1]), TTFT, {}, "knobs: "),
    ],
)
def test_a_study_of_another_search_is_refused_and_says_what_differs(
    tmp_path: Path, space: Space, goal: Goal, about: dict[str, str], told: str
) -> None:
    with opened(tmp_path / "study.db") as study:
        study.add(Trial(1, "default", 1, SMALL.default, "pruned"))
    with pytest.raises(UsageError) as error:
        opened(tmp_path / "study.db", space, goal, **about)
    assert told in str(error.value) and "begin anew (--fresh)" in str(error.value)


def test_a_study_in_use_is_refused(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "study.db"),
        pytest.raises(UsageError, match="in use by another process"),
    ):
        opened(tmp_path / "study.db")
    opened(tmp_path / "study.db").close()


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(200)])
def test_files_that_are_no_study_are_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(content)
    if not content:  # SQLite begins a database in an empty file
        opened(path).close()
        return
    with pytest.raises(UsageError, match="cannot be used as a study"):
        opened(path)
    assert path.read_bytes() == content


def test_a_database_of_something_else_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    opened(path).close()
    with sqlite3.connect(path) as database:
        database.execute("update study_user_attributes set value_json = '{}'")
    with pytest.raises(UsageError, match="is of another search"):
        opened(path)


@pytest.mark.parametrize(
    ("kept", "damaged"),
    [
        ('"measured"', '"zzz"'),
        ('"measured"', '"failed"'),
        ('"chunk_size": 128', '"chunk_size": 129'),
        ('"chunk_size"', '"chonk_size"'),
        ('"512": ', '"512": -'),
        ('"512": ', '"512": 1e999, "5": '),
        ('"elapsed_s": ', '"elapsed_s": NaN, "tpot_ms": '),
        ('{"512": ', '[{"512": '),
    ],
)
def test_trials_that_no_search_leaves_are_a_clear_error(
    tmp_path: Path, kept: str, damaged: str
) -> None:
    path = tmp_path / "study.db"
    with opened(path) as study:
        search(TableBench(by_value(BEST)), study=study)
    kept, damaged = (json.dumps(text)[1:-1] for text in (kept, damaged))
    with sqlite3.connect(path) as database:
        changed = "update trial_user_attributes set value_json = replace(value_json, ?, ?)"
        database.execute(changed, (kept, damaged))
    with pytest.raises(UsageError, match=r"is no study that can be gone on with: [^\n]+\Z"):
        opened(path)


def test_a_folder_and_a_place_that_is_not_there_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder: name a file"):
        opened(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="study"):
        opened(file / "study.db")


def test_a_trial_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    with opened(tmp_path / "study.db") as study:
        with sqlite3.connect(tmp_path / "study.db") as database:
            database.execute("drop table trials")
        with pytest.raises(OrinError, match=r"a trial cannot be kept: [^\n]+\Z"):
            search(TableBench(by_value(BEST)), study=study)


def test_optuna_is_imported_only_where_a_study_needs_it() -> None:
    code = (
        "import sys; import orin_llm.tune.search, orin_llm.tune.spaces, orin_llm.tune.engine_bench;"
        "print([m for m in ('optuna', 'matplotlib', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
