"""Failures half-way: what was done is taken back, and what cannot be is told and recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from setup_support import SetupBoard, make_board

from orin_llm.device.board import read_board
from orin_llm.device.setup.apply import apply, revert
from orin_llm.device.setup.catalogue import SetupChoices, all_changes
from orin_llm.device.setup.change import Change, State
from orin_llm.device.setup.plan import Step, make_plan
from orin_llm.device.setup.signals import Stopped
from orin_llm.device.setup.snapshot import SNAPSHOT, load_snapshot
from orin_llm.device.setup.system import System
from orin_llm.errors import OrinError

CHOICES = SetupChoices("MAXN", "cool", 10**9, "ada", "/opt/orin-llm/.venv/bin/orin-llm")
FAILURES = [
    "systemctl daemon-reload",
    "systemctl enable orin-llm-clocks.service",
    "systemctl start orin-llm-clocks.service",
    "systemctl start nvfancontrol",
    "systemctl set-default multi-user.target",
    "fallocate",
    "mkswap",
    "swapon",
    "systemctl disable nvzramconfig.service",
]


def no_report(_: str) -> None:
    pass


def changes(system: System) -> tuple[Change, ...]:
    return all_changes(CHOICES, read_board(system.root))


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetupBoard:
    return make_board(tmp_path, monkeypatch)


@pytest.fixture
def system(board: SetupBoard) -> System:
    return System(board.root)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_half_way_takes_back_all_that_was_done(
    board: SetupBoard, system: System, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    before, steps = board.configuration(), make_plan(system, changes(system))
    variables = board.once(failure, 'echo "it is broken" >&2; exit 1')
    monkeypatch.setenv("PATH", variables["PATH"])
    with pytest.raises(OrinError, match="All is as it was: .* taken back"):
        apply(system, steps, no_report)
    assert board.configuration() == before
    assert load_snapshot(system).before == {}


def test_the_message_quotes_what_the_program_said(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAIL", "systemctl set-default*")
    steps = make_plan(system, changes(system))
    with pytest.raises(OrinError, match="Unit is masked") as failure:
        apply(system, steps, no_report)
    assert "systemctl set-default multi-user.target" in str(failure.value)


def test_what_cannot_be_taken_back_is_named_and_stays_recorded(
    board: SetupBoard, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = make_plan(system, changes(system))
    monkeypatch.setenv("FAKE_FAIL", "systemctl *nvfancontrol")
    with pytest.raises(OrinError, match="Taking back failed too.*revert.*fan: "):
        apply(system, steps, no_report)
    assert list(load_snapshot(system).before) == ["fan"]
    monkeypatch.delenv("FAKE_FAIL")
    assert revert(system, changes(system), no_report).done == ("fan",)
    assert load_snapshot(system).before == {}


def test_a_revert_goes_on_after_a_failure_and_can_be_repeated(
    board: SetupBoard, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = board.configuration()
    apply(system, make_plan(system, changes(system)), no_report)
    monkeypatch.setenv("FAKE_FAIL", "systemctl set-default*")
    with pytest.raises(OrinError, match="not everything could be restored. headless: "):
        revert(system, changes(system), no_report)
    assert list(load_snapshot(system).before) == ["headless"]
    monkeypatch.delenv("FAKE_FAIL")
    revert(system, changes(system), no_report)
    assert board.configuration() == before


class Interrupted(Change):
    """Stands for Ctrl-C in the middle of a change that has begun."""

    name = "interrupted"
    title = "…"

    def read(self, system: System) -> State:
        return {"text": system.read("/half")}

    def wanted(self, system: System, now: State) -> State:
        return {"text": "whole"}

    def write(self, system: System, state: State) -> None:
        if state["text"] is None:
            return system.remove("/half")
        system.write("/half", "ha")
        raise KeyboardInterrupt


def test_ctrl_c_takes_back_what_was_done_and_stays_ctrl_c(
    board: SetupBoard, system: System
) -> None:
    before = board.configuration()
    steps = make_plan(system, [*changes(system), Interrupted()])
    with pytest.raises(KeyboardInterrupt):
        apply(system, steps, no_report)
    assert board.configuration() == before


def test_a_stop_after_the_last_change_still_takes_it_back(system: System) -> None:
    def check() -> None:
        if system.read("/half") is not None:
            raise Stopped("stopped by SIGTERM", 15)

    with pytest.raises(Stopped, match="All is as it was: power-cut taken back") as stopped:
        apply(system.stopped_by(check), make_plan(system, [PowerCut()]), no_report)
    assert stopped.value.exit_code == 143 and system.read("/half") is None
    assert load_snapshot(system).before == {}


def test_a_stop_before_the_first_change_changes_nothing(board: SetupBoard, system: System) -> None:
    def check() -> None:
        raise Stopped("stopped by Ctrl-C", 2)

    before, steps = board.files(), make_plan(system, changes(system))
    with pytest.raises(Stopped, match="Ctrl-C. Nothing was changed"):
        apply(system.stopped_by(check), steps, no_report)
    assert board.files() == before


def test_what_is_done_and_read_back_is_not_stopped_any_more(
    board: SetupBoard, system: System
) -> None:
    steps = make_plan(system, changes(system))
    board.forget()

    def check() -> None:
        if "systemctl is-active graphical.target" in board.log:  # asked for when all is done
            raise Stopped("stopped by SIGHUP", 1)

    assert "headless" in apply(system.stopped_by(check), steps, no_report).done
    board.forget()
    done = revert(system.stopped_by(check), changes(system), no_report).done
    assert len(done) == len(steps) and load_snapshot(system).before == {}


class Deaf(Interrupted):
    """A setting that takes no value."""

    name = "deaf"

    def write(self, system: System, state: State) -> None:
        pass


def test_a_change_that_does_not_read_back_has_failed(system: System) -> None:
    with pytest.raises(OrinError, match="deaf was set, but reads otherwise: text"):
        apply(system, make_plan(system, [Deaf()]), no_report)


class PowerCut(Interrupted):
    """Looks, while a change is made, at what a power cut at that moment would leave."""

    name = "power-cut"
    recorded: tuple[str, ...] = ()

    def write(self, system: System, state: State) -> None:
        if state["text"] is None:
            return system.remove("/half")
        self.recorded = tuple(load_snapshot(system).before)
        system.write("/half", str(state["text"]))


def test_the_state_before_is_on_disk_before_a_change_begins(system: System) -> None:
    change = PowerCut()
    apply(system, make_plan(system, [*changes(system)[:1], change]), no_report)
    assert change.recorded == ("power-mode", "power-cut")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 2, "changes": []}', '{"version": 1}',
                '{"version": 1, "changes": [{"name": "fan"}]}', '{"version": 1, "changes": [3]}',
                '{"version": 1, "changes": [{"name": "fan", "before": 5}]}', "[" * 100_000]
)  # fmt: skip
def test_a_damaged_record_stops_both_before_anything_is_changed(
    board: SetupBoard, system: System, content: str
) -> None:
    system.write(SNAPSHOT, content)
    before, steps = board.files(), make_plan(system, changes(system))
    for call in (
        lambda: apply(system, steps, no_report),
        lambda: revert(system, changes(system), no_report),
    ):
        with pytest.raises(OrinError, match="setup.json, the record .* is not usable"):
            call()
    assert board.files() == before


def test_a_change_that_is_not_known_any_more_is_told_and_kept(system: System) -> None:
    record = {"version": 1, "changes": [{"name": "old", "before": {}}]}
    system.write(SNAPSHOT, json.dumps(record))
    with pytest.raises(OrinError, match="old: there is no such change"):
        revert(system, changes(system), no_report)
    assert list(load_snapshot(system).before) == ["old"]


def test_a_change_whose_record_is_incomplete_is_told_and_kept(system: System) -> None:
    record = {"version": 1, "changes": [{"name": "power-mode", "before": {}}]}
    system.write(SNAPSHOT, json.dumps(record))
    with pytest.raises(OrinError, match="power-mode: its record has no 'mode'"):
        revert(system, changes(system), no_report)
    assert list(load_snapshot(system).before) == ["power-mode"]


def test_steps_with_a_problem_are_left_out(system: System) -> None:
    step = Step(Deaf(), {}, {}, problem="no place for it")
    assert apply(system, [step], no_report).done == ()
