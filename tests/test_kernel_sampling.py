"""The kernel draws the tokens that cpp/sampling draws, in any order of its threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_calls import KernelFailed, Kernels
from numpy.typing import NDArray
from sampling_float64 import Rule
from sampling_rows import SHAPES, SIZES, logits_of
from sampling_support import Logits, params

from orin_llm._native import SamplingRow, SamplingWorkspace
from orin_llm.errors import OrinError

BAD_LOGITS, NOTHING_LEFT, NOT_WRITTEN = -1, -2, -9

DEFAULT = Rule(0.8, 40, 0.95, 0.05)
GREEDY = Rule(temperature=0.0)
NUCLEUS = Rule(0.9, 0, 0.9)
PLAIN = Rule()
PENALIZED = Rule(0.8, 0, 0.95, 0.02, 1.3, 0.4, 0.2)
RULES = (
    DEFAULT,
    GREEDY,
    NUCLEUS,
    PENALIZED,
    Rule(1.4, 300, 0.7, order="llama"),
    Rule(1.7, 0, 0.8, 0.01, order="llama"),
    Rule(3.0, 0, 1.0, 0.2),
)


@dataclass(frozen=True)
class Lane:
    """How a row is sampled; `allowed` is the mask."""

    rule: Rule
    recent: Sequence[int] = ()
    bias: Sequence[tuple[int, float]] = ()
    allowed: NDArray[np.bool_] | None = None
    seed: int = 0
    position: int = 0
    choice: int = 0
    is_drawn: bool = True

    def mask(self) -> NDArray[np.uint32] | None:
        if self.allowed is None:
            return None
        bits = np.packbits(self.allowed, bitorder="little")
        return np.pad(bits, (0, -len(bits) % 4)).view("<u4").astype(np.uint32)

    def arguments(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name not in ("rule", "allowed")}
        return {**vars(self.rule), **own, "mask": self.mask()}


@lru_cache(maxsize=4)
def workspace(n_vocab: int) -> SamplingWorkspace:
    return SamplingWorkspace(n_vocab)


def reference(logits: Logits, lane: Lane) -> int:
    row = SamplingRow(
        params(lane.rule, lane.seed),
        logits,
        recent=list(lane.recent),
        bias=list(lane.bias),
        mask=lane.mask(),
    )
    try:
        return workspace(len(logits)).sample(row, position=lane.position, choice=lane.choice)
    except OrinError as error:
        assert "not a number" in str(error) or "no token is left" in str(error)
        return BAD_LOGITS if "not a number" in str(error) else NOTHING_LEFT


def drawn(
    kernels: Kernels, rows: Sequence[Logits], lanes: Sequence[Lane], order: int = 2
) -> list[int]:
    """The kernel's tokens of rows in one call, with NaN between them."""
    n_vocab = len(rows[0])
    logits = np.full((len(rows), n_vocab + 3), np.nan, np.float32)
    logits[:, :n_vocab] = rows
    kernels.set_seed(seed=order)
    result = kernels.sample(
        logits=logits, n_vocab=n_vocab, rows=[lane.arguments() for lane in lanes]
    )
    return [int(token) for token in result[0]]


def assert_same(
    kernels: Kernels, rows: Sequence[Logits], lanes: Sequence[Lane], order: int = 2
) -> None:
    expected = [reference(*each) for each in zip(rows, lanes, strict=True)]
    assert drawn(kernels, rows, lanes, order) == expected


rules = st.builds(
    Rule,
    temperature=st.one_of(
        st.sampled_from([0.0, 1e-40, 1e-6, 0.7, 1.0, 1.5, 1e6, 3e38]), st.floats(0.125, 9, width=32)
    ),
    top_k=st.one_of(st.sampled_from([0, 0, 1, 2, 40, (1 << 31) - 1]), st.integers(0, 400)),
    top_p=st.one_of(st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.floats(0, 1, width=32)),
    min_p=st.one_of(st.sampled_from([0.0, 0.05, 1.0]), st.floats(0, 1, width=32)),
    repeat_penalty=st.sampled_from([1.0, 1.0, 1.3, 0.7, 100.0, 1e-38]),
    frequency_penalty=st.one_of(st.just(0.0), st.floats(-100, 100, width=32)),
    presence_penalty=st.one_of(st.just(0.0), st.floats(-2, 2, width=32)),
    order=st.sampled_from(["orin", "llama"]),
)
sizes = st.sampled_from(SIZES)


@st.composite
def sampled_rows(draw: st.DrawFn) -> tuple[Logits, Lane]:
    n_vocab = draw(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    tokens = st.integers(0, n_vocab - 1)
    values = st.one_of(
        st.floats(-20, 20, width=32), st.sampled_from([-np.inf, 3.4e38, -3.4e38, 1e30, 0.0])
    )
    n_recent = draw(st.sampled_from([0, 1, 7, 500]))
    density = draw(st.sampled_from([None, None, 0.02, 0.5, 0.98]))
    lane = Lane(
        draw(rules),
        rng.integers(0, n_vocab, n_recent).tolist(),
        draw(st.lists(st.tuples(tokens, values), max_size=6)) * draw(st.sampled_from([1, 2])),
        None if density is None else rng.random(n_vocab) < density,
        draw(st.integers(0, (1 << 64) - 1)),
        draw(st.integers(0, (1 << 64) - 1)),
        draw(st.integers(0, (1 << 32) - 1)),
    )
    return logits_of(draw(st.sampled_from(SHAPES)), n_vocab, int(rng.integers(1 << 32))), lane


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(sampled_rows(), st.integers(0, 9))
def test_any_row_gives_the_token_of_the_reference(
    kernels: Kernels, row: tuple[Logits, Lane], order: int
) -> None:
    assert_same(kernels, [row[0]], [row[1]], order)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_filter_cuts_where_the_reference_does(kernels: Kernels, shape: str) -> None:
    rows = [logits_of(shape, 1000, seed) for seed in range(len(RULES))]
    lanes = [Lane(rule, [1, 1, 7, 999], seed=5, position=i) for i, rule in enumerate(RULES)]
    assert_same(kernels, rows, lanes)


@pytest.mark.parametrize(
    ("n_vocab", "shapes"),
    [
        (32_000, {"normal": PENALIZED, "peaked": DEFAULT, "equal": NUCLEUS}),
        (128_256, {"normal": NUCLEUS, "few values": DEFAULT}),
        (151_936, {"peaked": GREEDY, "rising": Rule(1.0, 0, 0.95, order="llama")}),
        (262_144, {"normal": DEFAULT, "flat": PLAIN}),
    ],
)
def test_large_vocabularies_give_the_tokens_of_the_reference(
    kernels: Kernels, n_vocab: int, shapes: dict[str, Rule]
) -> None:
    rng = np.random.default_rng(n_vocab)
    recent = rng.integers(0, n_vocab, 64).tolist()
    bias = [(n_vocab - 1, 3.0), (0, -np.inf)]
    rows = [logits_of(shape, n_vocab) for shape in shapes]
    lanes = [Lane(rule, recent, bias, seed=n_vocab) for rule in shapes.values()]
    lanes[0] = Lane(lanes[0].rule, recent, bias, rng.random(n_vocab) < 0.5, position=1 << 40)
    assert_same(kernels, rows, lanes, order=3)


def test_top_k_keeps_no_other_token_of_the_blocks_where_its_tokens_are(kernels: Kernels) -> None:
    row = logits_of("flat", 2500)
    row[[5, 700, 1400, 2100, 2499]] = 1.0
    lanes = [
        Lane(Rule(temperature=1e6, top_k=k), position=position)
        for k in (1, 3, 5)
        for position in range(4)
    ]
    assert_same(kernels, [row] * len(lanes), lanes)


def test_top_k_may_keep_all_but_one(kernels: Kernels) -> None:
    row = np.array([0.0, -1.0, 0.0], np.float32)
    lanes = [
        Lane(Rule(temperature=1e6, top_k=k), position=position)
        for k in (2, 3)
        for position in range(6)
    ]
    assert_same(kernels, [row] * len(lanes), lanes)


def cumulative_weights(logits: Logits) -> list[int]:
    """Of the tokens in falling order of their logits."""
    _, weights = workspace(len(logits)).candidates(SamplingRow(params(PLAIN), logits))
    return [int(total) for total in np.cumsum(np.sort(weights.astype(np.uint64))[::-1])]


def top_p_that_needs(needed: int, total: int) -> float | None:
    """A float p of which the share of the total, rounded up, is `needed`."""
    near = np.float32(needed / total)
    for p in (near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(1))):
        if -(-int(float(p) * 2**32) * total >> 32) == needed:
            return float(p)
    return None


@pytest.mark.parametrize("distance", [0.1, 1e-4])
def test_top_p_stops_where_its_sum_is_reached_and_not_one_unit_before(
    kernels: Kernels, distance: float
) -> None:
    rows: list[Logits] = []
    lanes: list[Lane] = []
    rng = np.random.default_rng(3)
    while len(rows) < 16:
        row = (-distance * np.arange(9) + rng.normal(0, distance / 9, 9)).astype(np.float32)
        sums = cumulative_weights(row)
        for reached in sums[:-1]:
            for needed in (reached, reached + 1):
                p = top_p_that_needs(needed, sums[-1])
                if p is not None:  # at this heat of the draw, each of those kept is as likely
                    rule = Rule(temperature=1e6, top_p=p, order="llama")
                    lanes += [Lane(rule, position=place) for place in range(4)]
                    rows += [row] * 4
    assert_same(kernels, rows, lanes)


def test_top_p_sums_over_blocks_in_which_every_token_weighs_little(kernels: Kernels) -> None:
    row = np.full(200, -np.inf, np.float32)
    row[0] = 0.0
    row[64:72] = -17.8  # 20 of 2^30; top-p leaves away 64, which is three of these eight
    rule = Rule(temperature=1e6, top_p=1 - 2**-24, order="llama")
    assert_same(kernels, [row] * 8, [Lane(rule, position=position) for position in range(8)])


def test_heat_draws_tokens_that_weigh_nothing_for_the_filters(kernels: Kernels) -> None:
    row = np.full(200, -30.0, np.float32)
    row[0] = 0.0
    lanes = [
        Lane(Rule(temperature=30.0, top_k=k, order="llama"), position=position)
        for k in (0, 150)
        for position in range(3)
    ]
    assert_same(kernels, [row] * len(lanes), lanes)


def test_a_token_that_weighs_next_to_nothing_is_drawn_where_its_turn_is(kernels: Kernels) -> None:
    row = np.full(301, -np.inf, np.float32)
    row[[0, 300]] = 0.0
    row[32:256:32] = -17.3  # 33 of 2^30: a float sum would lose them
    lanes = [Lane(PLAIN, position=i) for i in (8_423_724, 9_781_710, 23_839_966)]
    assert drawn(kernels, [row] * 3, lanes) == [160, 96, 192]
    assert_same(kernels, [row] * 3, lanes)


def test_the_draw_goes_over_to_the_next_token_at_the_exact_number(kernels: Kernels) -> None:
    last_of_first, first_of_second = 1_856_579_368, 4_332_806_593  # r is 2^30 - 1, and 2^30
    pairs = [(0, 1), (7, 8), (2047, 2048)]  # of a thread, of neighbours, of neighbouring blocks
    rows, lanes = [], []
    for pair in pairs:
        row = np.full(2049, -np.inf, np.float32)
        row[list(pair)] = 0.0
        rows += [row, row]
        lanes += [Lane(PLAIN, position=last_of_first), Lane(PLAIN, position=first_of_second)]
    assert drawn(kernels, rows, lanes) == [token for pair in pairs for token in pair]
    assert_same(kernels, rows, lanes)


# Which order threads and blocks have


def test_the_order_of_threads_does_not_matter(kernels: Kernels) -> None:
    shapes = ("normal", "few values", "equal", "holes", "peaked", "flat")
    rows = [logits_of(shape, 2500) for shape in shapes]
    lanes = [
        Lane(rule, [2499, 3, 3], [(9, 2.0)], seed=9)
        for rule in (DEFAULT, NUCLEUS, PENALIZED, PLAIN, Rule(1.4, 300, 0.7, order="llama"), GREEDY)
    ]
    for order in range(4):
        assert_same(kernels, rows, lanes, order)


def test_a_call_leaves_nothing_behind_in_its_workspace(kernels: Kernels) -> None:
    rows = np.stack([logits_of("normal", 3000, seed) for seed in range(3)])
    lanes = [Lane(rule, [5, 6], seed=1) for rule in (PENALIZED, NUCLEUS, DEFAULT)]
    arguments = [lane.arguments() for lane in lanes]
    first, second = kernels.sample(logits=rows, n_vocab=3000, rows=arguments, n_calls=2)
    assert first.tolist() == second.tolist()


# Penalties, bias, mask


def test_biases_of_one_token_are_added_in_the_order_given(kernels: Kernels) -> None:
    logits = np.zeros(4, np.float32)
    lanes = [
        Lane(GREEDY, bias=bias)
        for bias in (
            [(3, 1e30), (2, 0.5), (3, -1e30), (3, 1.0)],
            [(3, 1e30), (3, 1.0), (2, 0.5), (3, -1e30)],
        )
    ]
    assert drawn(kernels, [logits] * 2, lanes) == [3, 2]
    assert_same(kernels, [logits] * 2, lanes)


def test_a_token_is_penalized_before_its_bias_is_added(kernels: Kernels) -> None:
    logits = np.array([1.2, 1.0, 0.0], np.float32)
    rule = Rule(temperature=0.0, repeat_penalty=2.0)
    lane = Lane(rule, [-1] * 100 + [1], [(1, 1.0)])  # 1 / 2 + 1 is more than 1.2, (1 + 1) / 2 not
    for order in range(4):
        assert drawn(kernels, [logits], [lane], order) == [1]


def test_recent_places_without_a_token_count_as_none(kernels: Kernels) -> None:
    row = logits_of("normal", 2050)
    rule = Rule(0.8, 0, 1.0, 0.0, 1.5, 2.0, 1.0)
    with_holes = Lane(rule, [-1, 2049, -1, 7, 2050, 4095, 1 << 30])
    assert drawn(kernels, [row], [with_holes]) == [reference(row, Lane(rule, [2049, 7]))]


def test_a_history_longer_than_the_block_is_counted(kernels: Kernels) -> None:
    rng = np.random.default_rng(4)
    row = logits_of("flat", 300)
    lane = Lane(Rule(0.1, 0, 1.0, 0.0, 1.0, 0.01, 0.0), rng.integers(0, 300, 3000).tolist())
    lanes = [Lane(lane.rule, lane.recent, position=i) for i in range(8)]
    assert_same(kernels, [row] * 8, lanes)


# What cannot be drawn from


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
def test_a_logit_that_is_no_number_is_told_even_behind_a_mask(kernels: Kernels, bad: float) -> None:
    n_vocab = 2100
    good = logits_of("normal", n_vocab)
    rows = [good] + [good.copy() for _ in range(5)]
    for row, place in zip(rows[1:], (0, 1000, 2047, 2048, n_vocab - 1), strict=True):
        row[place] = bad
    hidden = Lane(GREEDY, [0], [(0, -5.0)], np.arange(n_vocab) == 5)
    lanes = [Lane(DEFAULT), Lane(GREEDY), hidden, Lane(NUCLEUS), Lane(PLAIN), hidden]
    assert drawn(kernels, rows, lanes) == [reference(good, lanes[0])] + [BAD_LOGITS] * 5


def test_where_nothing_is_left_the_row_says_so_and_others_go_on(kernels: Kernels) -> None:
    row = logits_of("normal", 70)
    nothing = np.full(70, -np.inf, np.float32)
    banned = [(token, -np.inf) for token in range(70)]
    lanes = [Lane(DEFAULT, allowed=np.zeros(70, bool)), Lane(NUCLEUS, bias=banned), Lane(GREEDY)]
    lanes += [Lane(DEFAULT), Lane(PLAIN)]
    rows = [row, row, nothing, nothing, row]
    assert drawn(kernels, rows, lanes) == [NOTHING_LEFT] * 4 + [reference(row, lanes[4])]


def test_a_lane_without_a_sequence_is_left_alone(kernels: Kernels) -> None:
    rows = [logits_of("normal", 2100, seed) for seed in range(6)]
    rows[2][0] = np.nan
    rules = (DEFAULT, GREEDY, NUCLEUS, NUCLEUS, PENALIZED, PLAIN)
    lanes = [Lane(rule, [i, 7], [(i, 1.0)], is_drawn=i % 2 == 1) for i, rule in enumerate(rules)]
    expected = [
        reference(row, lane) if lane.is_drawn else NOT_WRITTEN
        for row, lane in zip(rows, lanes, strict=True)
    ]
    assert drawn(kernels, rows, lanes) == expected


def test_no_rows_are_no_work_and_no_vocabulary_is_refused(kernels: Kernels) -> None:
    nothing = kernels.sample(logits=np.zeros((0, 5), np.float32), n_vocab=5, rows=[])
    assert [tokens.tolist() for tokens in nothing] == [[]]
    for logits, n_vocab in (((1, 5), 0), ((1, 5), 6)):
        with pytest.raises(KernelFailed, match="invalid argument"):
            kernels.sample(
                logits=np.zeros(logits, np.float32), n_vocab=n_vocab, rows=[Lane(PLAIN).arguments()]
            )
