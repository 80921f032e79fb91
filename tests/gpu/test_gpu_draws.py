"""Steps of sampling on the GPU draw what the rule draws, of what each answer has seen.

The model is a matrix: the logits after a token are its row, whatever came before. So a token that
is fed wrongly gives other logits, and one that is forgotten other penalties.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from gpu.emulated import EmulatedGpu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampling_float64 import Rule
from sampling_support import params

from orin_llm import _native
from orin_llm.errors import OrinError

N_VOCAB, BAD_TOKEN = 200, 13
UNKNOWN, BAD_LOGITS, NOTHING_LEFT = -1, -1, -2
SIZES = {"n_sequences": 5, "max_outputs": 8, "max_recent": 50}

RULES = (
    Rule(temperature=0.0),
    Rule(temperature=0.0, repeat_penalty=1.5, frequency_penalty=0.5),
    Rule(0.8, 40, 0.95, 0.05),
    Rule(0.9, 0, 0.9, repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2),
    Rule(1.2, 7, 0.8, order="llama"),
    Rule(),
)


def matrix() -> NDArray[np.float32]:
    """Few tokens are likely at all, so that those that were drawn are likely to be drawn again."""
    logits = np.random.default_rng(7).normal(0, 2, (N_VOCAB, N_VOCAB)).astype(np.float32)
    logits[:, 100:116] += 9
    logits[BAD_TOKEN, 55] = np.nan
    return logits


LOGITS = matrix()


@dataclass
class Answer:
    """One request: its sampler as the engine has it, and what the reference needs."""

    request: int
    sequence: int
    rule: Rule
    window: int
    bias: list[tuple[int, float]]
    n_logprobs: int
    seen: list[int]
    n_under_way: int = 0
    ended: bool = False
    sampler: Any = field(init=False)

    def __post_init__(self) -> None:
        own = params(self.rule, self.request)
        self.sampler = _native.Sampler(own, penalty_window=self.window, logit_bias=self.bias)
        for token in self.seen:
            self.sampler.see(token)

    def expected(self) -> int:
        recent = self.seen[-self.window :] if self.window else []
        own = params(self.rule, self.request)
        row = _native.SamplingRow(own, LOGITS[self.seen[-1]], recent=recent, bias=self.bias)
        try:
            return WORKSPACE.sample(row, position=len(self.seen))
        except OrinError as error:
            return BAD_LOGITS if "not a number" in str(error) else NOTHING_LEFT


WORKSPACE = _native.SamplingWorkspace(N_VOCAB)


class Simulation:
    """Answers that come and go in sequences, with up to two steps under way."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.probe = _native.testing.SamplingProbe(LOGITS, **SIZES)
        self.n_requests = 0
        self.answers: list[Answer] = []
        self.under_way: deque[list[Answer]] = deque()
        self.n_drawn = 0

    def begin(self, sequence: int) -> Answer:
        rng = self.rng
        self.n_requests += 1
        bias = [
            (int(t), float(rng.normal(0, 5))) for t in rng.integers(0, N_VOCAB, rng.integers(4))
        ]
        if rng.random() < 0.05:
            bias = [(token, -np.inf) for token in range(N_VOCAB)]
        return Answer(
            self.n_requests,
            sequence,
            RULES[rng.integers(len(RULES))],
            int(rng.choice([0, 1, 5, 50])),
            bias * int(rng.integers(1, 3)),
            int(rng.choice([-1, -1, 0, 3, 20])),
            rng.integers(0, N_VOCAB, rng.integers(1, 20)).tolist(),
        )

    def rows_of(self, answer: Answer) -> list[Any]:
        """Its row in the next step, and before it what has no output."""
        row = _native.testing.SamplingProbeRow
        token = UNKNOWN if answer.n_under_way else answer.seen[-1]
        own = {"sequence": answer.sequence, "request": answer.request}
        without = [
            row(token=int(other), sampler=None, n_logprobs=-1, position=0, **own)
            for other in self.rng.integers(0, N_VOCAB, self.rng.choice([0, 0, 3]))
        ]
        return [
            *without,
            row(
                token=token,
                sampler=answer.sampler,
                n_logprobs=answer.n_logprobs,
                position=len(answer.seen) + answer.n_under_way,
                **own,
            ),
        ]

    def start(self) -> None:
        rng = self.rng
        held = {answer.sequence for answer in self.answers}
        for sequence in range(SIZES["n_sequences"]):
            if sequence not in held and rng.random() < 0.4:
                self.answers.append(self.begin(sequence))
        taking_part = [a for a in self.answers if rng.random() < 0.8]
        rows = [row for answer in taking_part for row in self.rows_of(answer)]
        n_idle = int(rng.integers(0, SIZES["max_outputs"] - len(taking_part) + 1))
        if not rows and n_idle == 0:
            return
        fails = bool(rng.random() < 0.05)
        self.probe.start(rows, n_idle=n_idle, backend=int(rng.integers(2)), fails=fails)
        if fails:
            for answer in taking_part:  # as the engine does
                answer.ended = True
            self.answers = [a for a in self.answers if not a.ended]
            return
        for answer in taking_part:
            answer.n_under_way += 1
        self.under_way.append(taking_part)

    def collect(self) -> None:
        taking_part = self.under_way.popleft()
        for answer, (token, logprobs) in zip(taking_part, self.probe.collect(), strict=True):
            answer.n_under_way -= 1
            if not answer.ended:
                self.check(answer, token, logprobs)
        self.answers = [answer for answer in self.answers if not answer.ended]

    def check(self, answer: Answer, token: int, logprobs: list[tuple[int, float]]) -> None:
        assert token == answer.expected(), (answer, token)
        self.n_drawn += 1
        if token < 0:
            assert not logprobs
            answer.ended = True
            return
        if answer.n_logprobs >= 0:
            row = LOGITS[answer.seen[-1]]
            expected = WORKSPACE.top_logprobs(row, n=answer.n_logprobs, chosen=token)
            assert [id for id, _ in logprobs] == [id for id, _ in expected]
            np.testing.assert_allclose(
                [value for _, value in logprobs], [value for _, value in expected], 1e-6, 1e-6
            )
        else:
            assert not logprobs
        answer.sampler.see(token)
        answer.seen.append(token)
        if self.rng.random() < 0.1:
            answer.ended = True
        elif answer.n_under_way == 0 and self.rng.random() < 0.1:
            self.move(answer)

    def move(self, answer: Answer) -> None:
        """As a request that had to give way, and goes on elsewhere."""
        held = {other.sequence for other in self.answers}
        free = [s for s in range(SIZES["n_sequences"]) if s not in held]
        if free:
            answer.sequence = int(self.rng.choice(free))

    def run(self, n_steps: int) -> None:
        for _ in range(n_steps):
            if len(self.under_way) == 2 or (self.under_way and self.rng.random() < 0.3):
                self.collect()
            else:
                self.start()
        while self.under_way:
            self.collect()


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 32))
def test_every_token_is_the_rules_of_what_its_answer_has_seen(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run(40)
    assert simulation.n_drawn > 10


@pytest.mark.parametrize("schedule", [0, 2])
def test_when_the_gpu_does_its_work_does_not_matter(emulated: EmulatedGpu, schedule: int) -> None:
    emulated.set_schedule(schedule)
    Simulation(schedule).run(40)


def step(probe: Any, answers: list[Answer], token: int | None = None) -> list[Any]:
    """Start a step of each answer's last token, or of what the device has drawn."""
    rows = [
        _native.testing.SamplingProbeRow(
            token=answer.seen[-1] if token is None else token,
            sequence=answer.sequence,
            request=answer.request,
            sampler=answer.sampler,
            n_logprobs=answer.n_logprobs,
            position=len(answer.seen),
        )
        for answer in answers
    ]
    probe.start(rows, n_idle=0, backend=0, fails=False)
    return rows


def test_an_answer_that_comes_back_to_a_sequence_brings_what_it_has_seen() -> None:
    probe = _native.testing.SamplingProbe(LOGITS, **SIZES)
    rule = Rule(temperature=0.0, repeat_penalty=100.0, frequency_penalty=50.0)
    answer = Answer(1, 0, rule, 50, [], -1, [1, 2, 3])
    for sequence in [0] + [1] * 6 + [0] * 6:
        answer.sequence = sequence
        step(probe, [answer])
        ((token, _),) = probe.collect()
        assert token == answer.expected()
        answer.sampler.see(token)
        answer.seen.append(token)


def test_biases_of_one_token_are_added_in_the_order_given(emulated: EmulatedGpu) -> None:
    emulated.set_thread_order(1)  # of which an order that threads give would be the opposite
    probe = _native.testing.SamplingProbe(LOGITS, **SIZES)
    ordered = [(3, 1e30), (2, 0.5), (3, -1e30), (3, 99.0)]
    answer = Answer(1, 0, RULES[0], 5, ordered, -1, [1])
    step(probe, [answer])
    assert answer.expected() == 3
    assert probe.collect() == [(3, [])]
    emulated.set_thread_order(0)


def test_answers_that_begin_at_once_may_bring_more_than_uploads_have_room_for() -> None:
    probe = _native.testing.SamplingProbe(LOGITS, **SIZES)
    rng = np.random.default_rng(1)
    answers = [
        Answer(i + 1, i, RULES[0], 5, [(int(t), 1.0) for t in rng.integers(0, 200, 4096)], -1, [i])
        for i in range(5)
    ]
    step(probe, answers)
    assert [token for token, _ in probe.collect()] == [answer.expected() for answer in answers]


def test_ids_and_what_was_asked_for_come_back_and_nothing_else(emulated: EmulatedGpu) -> None:
    probe = _native.testing.SamplingProbe(LOGITS, **SIZES)
    plain = [Answer(i + 1, i, RULES[3], 50, [(7, 1.0)], -1, [i]) for i in range(3)]
    step(probe, plain)
    probe.collect()
    emulated.reset_counters()
    step(probe, plain)
    probe.collect()
    counted = emulated.counters()
    assert counted["bytes_to_host"] == 4 * len(plain)
    for answer in plain[1:]:
        answer.n_logprobs = 5
    emulated.reset_counters()
    step(probe, plain)
    probe.collect()
    assert emulated.counters()["bytes_to_host"] == 4 * len(plain) + 8 * (5 + 1) * 2


def test_a_failure_is_fed_as_token_0() -> None:
    probe = _native.testing.SamplingProbe(LOGITS, **SIZES)
    answer = Answer(1, 0, RULES[0], 5, [], -1, [BAD_TOKEN])
    step(probe, [answer])
    step(probe, [answer], UNKNOWN)
    assert probe.collect() == [(BAD_LOGITS, [])]
    assert probe.collect() == [(int(LOGITS[0].argmax()), [])]


def test_more_than_there_is_room_for_is_refused() -> None:
    probe = _native.testing.SamplingProbe(LOGITS, **SIZES)

    def sampler(window: int = 5, n_bias: int = 0) -> Any:
        bias = [(0, 1.0)] * n_bias
        return _native.Sampler(params(Rule()), penalty_window=window, logit_bias=bias)

    probe.check(sampler(50, 4096), 20)
    for refused, n_logprobs, message in (
        (sampler(n_bias=4097), -1, "4097 logit biases .* room for 4096.*--hooks -sampling"),
        (sampler(), 21, "21 log-probabilities .* room for 20.*--hooks -sampling"),
        (sampler(window=51), -1, "51 recent tokens .* room for 50.*--hooks -sampling"),
    ):
        with pytest.raises(OrinError, match=message):
            probe.check(refused, n_logprobs)
