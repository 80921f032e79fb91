"""Who stands where after the trials so far, and what that decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from orin_llm.tune.knobs import Candidate, Space
from orin_llm.tune.outcome import Decision, Outcome, Standing
from orin_llm.tune.pairs import Ratio, ratio_of
from orin_llm.tune.session import FINAL, Session

WORTHWHILE = 0.995  # a cost that is less of an improvement is none
ALIKE = 0.02  # costs that are nearer than this may count as the same


def log_cost(session: Session, candidate: Candidate) -> float | None:
    """The middle of all repetitions of a candidate; 0 for the default."""
    if candidate == session.space.default:
        return 0.0
    logs = session.logs(candidate)
    return median(logs) if logs else None


def ranked(session: Session, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best first; those beyond the bounds behind all others, by how far they are."""
    keyed: list[tuple[float, float, int, Candidate]] = []
    for candidate in candidates:
        measurement, log = session.measurement(candidate), log_cost(session, candidate)
        if measurement is None or log is None:
            continue
        keyed.append((session.goal.excess(measurement), log, len(keyed), candidate))
    return [candidate for *_, candidate in sorted(keyed)]


def distance(space: Space, candidate: Candidate) -> tuple[int, int]:
    """How much is other than by default: knobs, and steps along their values."""
    steps = [
        abs(knob.values.index(candidate[knob.name]) - knob.values.index(knob.default))
        for knob in space.knobs
    ]
    return sum(step > 0 for step in steps), sum(steps)


def final_ratio(
    session: Session, candidate: Candidate, beside: Candidate | None = None
) -> Ratio | None:
    """From the last comparison alone, in which nobody was chosen for being lucky: relative to the
    default, or to another of its candidates, turn by turn."""
    logs = session.logs(candidate, FINAL)
    if beside is not None:
        others = session.logs(beside, FINAL)
        logs = [a - b for a, b in zip(logs, others, strict=False)]
    return ratio_of(logs)


def outcome(session: Session, *, full: bool, finished: bool) -> Outcome:
    """What follows; with `full` from the grid, else from the last comparison."""
    default = session.space.default
    order = ranked(session, session.measured())
    stage = None if full else FINAL
    finalists = [c for c in order if session.logs(c, stage) and c != default]
    decision, reason, best = _decide(session, order, finalists, full=full, finished=finished)
    standings = {candidate: standing(session, candidate) for candidate in order}
    others = [c for c in order if c not in (best, default)]
    return Outcome(
        goal=session.goal,
        space=session.space,
        decision=decision,
        reason=reason,
        best=standings.get(best) if best is not None else None,
        default=standings.get(default),
        runners_up=tuple(standings[c] for c in others),
        indistinguishable=_alike(session, best, order),
        trials=tuple(session.trials),
        elapsed_s=session.elapsed_s,
        noise=session.noise,
    )


def standing(session: Session, candidate: Candidate) -> Standing:
    """Of a candidate that was measured."""
    measurement = session.measurement(candidate)
    assert measurement is not None
    trials = [t for t in session.trials if t.candidate == candidate and t.state == "measured"]
    is_default = candidate == session.space.default
    return Standing(
        candidate=candidate,
        measurement=measurement,
        cost=Ratio(1.0, 1.0, 1.0) if is_default else ratio_of(session.logs(candidate)),
        violations=session.goal.violations(measurement),
        verdicts=trials[-1].verdicts,
        trials=len(trials),
    )


def winner(session: Session, finalists: Sequence[Candidate]) -> Candidate:
    """Of the finalists the best; of those that are alike, the nearest to the default."""
    best = finalists[0]
    for other in finalists[1:]:
        ratio = final_ratio(session, other, best)
        if ratio is None:
            continue
        if ratio.is_open and abs(math.log(ratio.value)) < ALIKE:
            better = distance(session.space, other) < distance(session.space, best)
        else:
            better = ratio.value < 1
        if better:
            best = other
    return best


def _decide(
    session: Session,
    order: Sequence[Candidate],
    finalists: Sequence[Candidate],
    *,
    full: bool,
    finished: bool,
) -> tuple[Decision, str, Candidate | None]:
    default = session.space.default
    if not order:
        return "unfinished", "nothing was measured", None
    goal = session.goal
    held = {c: not goal.violations(m) for c in order if (m := session.measurement(c)) is not None}
    leader = order[0]
    if not held[leader]:
        measurement = session.measurement(leader)
        assert measurement is not None
        why = "; ".join(goal.violations(measurement))
        return "infeasible", f"nothing holds the bounds; nearest to them: {why}", leader
    if not finished:
        return "unfinished", "ended before the last comparison: the best so far", leader
    within = [candidate for candidate in finalists if held[candidate]]
    if not within:
        return _no_finalist(session, order, held)
    best = winner(session, within) if not full else within[0]
    ratio = final_ratio(session, best) if not full else ratio_of(session.logs(best))
    assert ratio is not None
    if not held[default]:
        return "better", f"the default does not hold the bounds, {ratio.text} of its cost", best
    if ratio.is_below_one and ratio.value <= WORTHWHILE:
        return "better", f"{ratio.text} of the default's cost, {ratio.pairs} pairs", best
    if ratio.is_open:
        return "noise", f"the best other one costs {ratio.text} times as much, by chance", default
    return "default", f"the best other one costs {ratio.text} times as much", default


def _no_finalist(
    session: Session, order: Sequence[Candidate], held: dict[Candidate, bool]
) -> tuple[Decision, str, Candidate]:
    default = session.space.default
    if not held.get(default, False):
        return "better", "the default does not hold the bounds", order[0]
    others = [c for c in order if c != default and held[c]]
    if len(order) == 1:
        return "default", "nothing else could be measured", default
    if not others:
        return "default", "nothing else holds the bounds", default
    nearest = log_cost(session, others[0])
    cost = math.exp(nearest) if nearest is not None else math.nan
    return "default", f"the best other one costs {cost:.3f} times as much", default


def _alike(
    session: Session, best: Candidate | None, order: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """Those that cannot be told from the best."""
    if best is None:
        return ()
    own, middle = session.logs(best), log_cost(session, best)
    found = []
    for candidate in order:
        logs, log = session.logs(candidate), log_cost(session, candidate)
        if candidate == best or log is None or middle is None:
            continue
        if candidate == session.space.default:
            ratio = ratio_of(own)
            if ratio is not None and ratio.is_open:
                found.append(candidate)
            continue
        counts = [n for n in (len(own), len(logs)) if n]
        error = 3 * session.noise * math.sqrt(sum(1 / n for n in counts))
        if abs(log - middle) <= max(error, ALIKE / 2):
            found.append(candidate)
    return tuple(found)
