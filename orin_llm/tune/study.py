"""Every trial on disk: a SQLite file that Optuna's tools can open, and a search can go on from."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orin_llm.closeable import Closeable
from orin_llm.errors import OrinError, UsageError
from orin_llm.host.locking import file_lock
from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import Space
from orin_llm.tune.outcome import Trial

if TYPE_CHECKING:
    import optuna

_NAME = "orin-llm tune"
_ABOUT, _TRIAL = "about", "trial"


class Study(Closeable):
    """The trials of one search. With a file, each is in it as soon as it has ended.

    A `with` block lets go of the file.
    """

    def __init__(
        self, study: optuna.Study | None, space: Space, trials: list[Trial], held: ExitStack
    ) -> None:
        self._study = study
        self._space = space
        self._held = held
        self.trials = trials

    @classmethod
    def open(cls, path: Path | None, space: Space, goal: Goal, about: Mapping[str, Any]) -> Study:
        """Make a study, or go on with the one in the file.

        Args:
            path: None keeps the trials in memory.
            about: what else must be the same to go on: the model, the machine, the workload.

        Raises:
            UsageError: the file is of another search (the message says what differs), is no
                study, cannot be written, or another process uses it.
        """
        if path is None:
            return cls(None, space, [], ExitStack())
        optuna = import_optuna()
        described = _described(space, goal, about)
        with ExitStack() as stack:
            try:
                storage = _storage(path, stack)
                study = optuna.create_study(
                    study_name=_NAME, storage=storage, load_if_exists=True, direction="minimize"
                )
                known = study.user_attrs.get(_ABOUT)
                if known is None:
                    study.set_user_attr(_ABOUT, described)
                elif known != described:
                    raise UsageError(
                        f"{path} is of another search ({_difference(known, described)}): begin "
                        "anew (--fresh), or name another file"
                    )
                trials = [_trial(t.user_attrs[_TRIAL], space) for t in study.trials]
            except UsageError:
                raise
            except (OSError, KeyError, TypeError, ValueError, optuna.exceptions.OptunaError) as e:
                raise UsageError(f"{path} is no study that can be gone on with: {e}") from None
            except Exception as error:  # of the library that reads SQLite, by whatever name
                raise UsageError(_unreadable(path, error)) from None
            return cls(study, space, trials, stack.pop_all())

    def add(self, trial: Trial) -> None:
        """Keep a trial that has ended.

        Raises:
            OrinError: the file cannot be written any more.
        """
        if self._study is not None:
            self._write(self._study, trial)
        self.trials.append(trial)

    def _write(self, study: optuna.Study, trial: Trial) -> None:
        optuna = import_optuna()
        value = trial.cost if trial.state == "measured" else None
        states = optuna.trial.TrialState
        frozen = optuna.trial.create_trial(
            state=states.PRUNED if value is None else states.COMPLETE,
            params=dict(trial.candidate),
            distributions={
                knob.name: optuna.distributions.CategoricalDistribution(knob.values)
                for knob in self._space.knobs
            },
            value=value,
            user_attrs={_TRIAL: json.dumps(trial.to_json(), allow_nan=False)},
        )
        try:
            study.add_trial(frozen)
        except Exception as error:
            raise OrinError(f"a trial cannot be kept: {_first_line(error)}") from None

    def close(self) -> None:
        """Let go of the file."""
        self._held.close()


def import_optuna() -> Any:
    """Optuna, quiet: it is only imported where it is used."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def study_lock(path: Path) -> AbstractContextManager[int]:
    """Holds a study's file; UsageError where another process does."""

    def refuse() -> None:
        raise UsageError(f"{path} is in use by another process: wait for it, or name another file")

    return file_lock(path.with_name(f"{path.name}.lock"), refuse)


def _storage(path: Path, stack: ExitStack) -> Any:
    from sqlalchemy.pool import NullPool

    optuna = import_optuna()
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file for the study")
    stack.enter_context(study_lock(path))
    place = path.absolute()
    return optuna.storages.RDBStorage(
        "sqlite://",  # with the name in it, a question mark would end that
        engine_kwargs={"creator": lambda: sqlite3.connect(place), "poolclass": NullPool},
    )


def _trial(text: str, space: Space) -> Trial:
    """A trial as `_write` kept it; ValueError where this search cannot have left it."""
    trial = Trial.from_json(json.loads(text))
    values = {knob.name: knob.values for knob in space.knobs}
    if [*trial.candidate] != [*values] or any(v not in values[n] for n, v in trial.candidate.pairs):
        raise ValueError(f"trial {trial.number} has other settings: {trial.candidate.text}")
    return trial


def _described(space: Space, goal: Goal, about: Mapping[str, Any]) -> dict[str, Any]:
    """As it comes back from JSON."""
    knobs = {knob.name: [*map(str, knob.values), f"default {knob.default}"] for knob in space.knobs}
    found: dict[str, Any] = json.loads(json.dumps({**about, **goal.to_json(), "knobs": knobs}))
    return found


def _difference(known: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    names = [n for n in {**known, **described} if known.get(n) != described.get(n)]
    return "; ".join(f"{n}: {known.get(n)} there, {described.get(n)} now" for n in names[:3])


def _unreadable(path: Path, error: Exception) -> str:
    return (
        f"{path} cannot be used as a study: {_first_line(error)}: name another file, or begin anew "
        "(--fresh)"
    )


def _first_line(error: Exception) -> str:
    """Behind it SQLAlchemy tells the statement."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
