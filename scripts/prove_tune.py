#!/usr/bin/env python3
"""Whether tuning finds what a full grid finds, in a part of its time.

    scripts/prove_tune.py smollm2
    scripts/prove_tune.py smollm2 --goal ttft --prompt 128,512 --repetitions 5 --json proof.json

Measures every combination of the settings with all repetitions, then searches twice, and then takes
the choices in turns with the default and with the best of the grid. On a machine that does nothing
else. Four claims are judged, exit code 1 where one does not hold:

- each choice costs no more than the default (the interval of the ratio reaches 1 or below),
- and at most 5 % more than the best of the grid,
- each search took at most 40 % of the grid's time,
- both searches chose the same, or one says that the choices differ by chance alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orin_llm.bench.lengths import parse_numbers
from orin_llm.bench.watch import watching
from orin_llm.engine import EngineConfig
from orin_llm.models.store import resolve
from orin_llm.profiles.profile import GOALS
from orin_llm.tune.bench import Bench, Effort
from orin_llm.tune.engine_bench import EngineBench
from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import Candidate, Space
from orin_llm.tune.outcome import Outcome
from orin_llm.tune.pairs import Ratio, ratio_of
from orin_llm.tune.plan import Plan
from orin_llm.tune.search import Tuner
from orin_llm.tune.spaces import default_space
from orin_llm.tune.work import Work

NEAR_BEST, OF_TIME = 1.05, 0.40


@dataclass(frozen=True)
class Claim:
    text: str
    holds: bool


def main() -> int:
    arguments = _arguments()
    prompts = tuple(parse_numbers(arguments.prompt, "--prompt", 1))
    goal, work = Goal(arguments.goal), Work(prompts, arguments.gen, arguments.streams, 64, 16)
    base, plan = EngineConfig(threads=arguments.threads), Plan(repetitions=arguments.repetitions)
    space = default_space(base, goal, work, on_gpu=False)
    left = [knob for knob in space.knobs if knob.name in arguments.knobs.split(",")]
    space = Space(tuple(left), space.allowed)
    with (
        watching(readings=False) as watch,
        EngineBench(resolve(arguments.model), base, space, goal, work, watch=watch) as bench,
    ):
        _say(f"{space.combinations} combinations of {', '.join(k.name for k in space.knobs)}")
        grid = _searched(space, goal, bench, Plan(full=True, repetitions=plan.repetitions), "grid")
        both = [_searched(space, goal, bench, plan, f"search {n}") for n in (1, 2)]
        claims = list(_claims(goal, space, bench, grid, both, 2 * plan.repetitions))
    for claim in claims:
        print(f"{'holds' if claim.holds else 'FAILS'}  {claim.text}")
    if arguments.json:
        report = {
            "claims": [asdict(claim) for claim in claims],
            "grid": _told(grid),
            "searches": [_told(outcome) for outcome in both],
        }
        Path(arguments.json).write_text(json.dumps(report, indent=2, allow_nan=False) + "\n")
    return 0 if all(claim.holds for claim in claims) else 1


def _claims(
    goal: Goal,
    space: Space,
    bench: Bench,
    grid: Outcome,
    both: Sequence[Outcome],
    pairs: int,
) -> Iterator[Claim]:
    best = _best_of_grid(grid)
    # What a grid needs: each candidate once. The default between them, and what was measured again
    # after a drift, it would not.
    once = {t.candidate: t.took_s for t in grid.trials if t.candidate != space.default}
    grid_s = sum(once.values())
    for number, outcome in enumerate(both, 1):
        choice = _best(outcome)
        name = f"search {number} ({choice.text}; {outcome.decision})"
        to_default = _in_turns(goal, bench, choice, space.default, pairs)
        to_best = _in_turns(goal, bench, choice, best, pairs)
        not_worse = to_default.low is None or to_default.low <= 1
        yield Claim(f"{name}: {to_default.text} of the default's cost", not_worse)
        near = to_best.value <= NEAR_BEST
        yield Claim(f"{name}: {to_best.text} of that of the grid's best ({best.text})", near)
        part = outcome.elapsed_s / grid_s
        text = (
            f"search {number}: {outcome.elapsed_s:.0f} s of the grid's {grid_s:.0f} s: {part:.0%}"
        )
        yield Claim(text, part <= OF_TIME)
    first, second = (_best(outcome) for outcome in both)
    alike = {*both[0].indistinguishable, *both[1].indistinguishable}
    same = first == second or first in alike or second in alike
    how = "the same" if first == second else "others, said to be alike" if same else "others"
    yield Claim(f"both searches chose {how}", same)


def _searched(space: Space, goal: Goal, bench: Bench, plan: Plan, name: str) -> Outcome:
    tuner = Tuner(space, goal, bench, plan=plan)
    for trial in tuner.run():
        left_s = tuner.progress.left_s or 0.0
        cost = f"{trial.cost:.3f}" if trial.cost is not None else trial.state
        _say(f"{name}, {left_s:.0f} s left: {trial.stage}: {trial.candidate.text}: {cost}")
    outcome = tuner.outcome()
    _say(f"{name}: {outcome.elapsed_s:.0f} s, {outcome.decision}: {outcome.reason}")
    return outcome


def _best_of_grid(grid: Outcome) -> Candidate:
    """By the middle of all repetitions, the default included."""
    standings = [s for s in (grid.best, grid.default, *grid.runners_up) if s is not None]
    ranked = [(s.cost.value, s.candidate) for s in standings if s.cost is not None]
    return min(ranked, key=lambda pair: pair[0])[1]


def _best(outcome: Outcome) -> Candidate:
    assert outcome.best is not None  # the default at least
    return outcome.best.candidate


def _in_turns(goal: Goal, bench: Bench, one: Candidate, other: Candidate, pairs: int) -> Ratio:
    """The cost of one over that of the other."""
    if one == other:
        return Ratio(1.0, 1.0, 1.0)
    logs = []
    for pair in range(pairs):
        order = (one, other) if pair % 2 == 0 else (other, one)
        found = {candidate: bench.measure(candidate, Effort()) for candidate in order}
        log = goal.log_cost(found[one].samples[0], found[other].samples[0])
        assert log is not None
        logs.append(log)
    ratio = ratio_of(logs)
    assert ratio is not None
    return ratio


def _told(outcome: Outcome) -> dict[str, object]:
    return {
        "elapsed_s": outcome.elapsed_s,
        "decision": outcome.decision,
        "reason": outcome.reason,
        "settings": outcome.settings,
        "noise": outcome.noise,
        "trials": [trial.to_json() for trial in outcome.trials],
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a GGUF file or the name of an installed model")
    parser.add_argument("--goal", choices=GOALS, default="ttft")
    parser.add_argument("--prompt", default="128,512", help="prompt lengths in tokens")
    parser.add_argument("--gen", type=int, default=32, help="tokens of an answer")
    parser.add_argument("--streams", type=int, default=4, help="that run at once")
    parser.add_argument("--threads", type=int, default=0, help="where they are no knob")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--knobs", default="chunk_size,page_size,threads,max_batch")
    parser.add_argument("--json", help="a file for everything that was measured")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
