"""The simulation of the scheduler: its figures obey what the policies promise.

The simulation is deterministic: time is modelled, so nothing here depends on the machine.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import simulate_scheduler
from simulation.cost_model import CostModel, Work
from simulation.figures import Figures, figures, itls_ms, tpots_ms, ttfts_ms
from simulation.simulator import Run, Served, simulate
from simulation.traces import TRACES, Trace, TraceRequest

SEED = 1


@pytest.fixture(scope="module")
def simulated():
    """Figures by trace and policy, each computed once."""
    known: dict[tuple[str, str], Figures] = {}

    def look_up(trace: str, policy: str) -> Figures:
        if (trace, policy) not in known:
            run = simulate(TRACES[trace](SEED), CostModel(), policy=policy)
            known[trace, policy] = figures(trace, policy, run)
        return known[trace, policy]

    return look_up


@pytest.mark.parametrize("trace", ["rag", "chat", "story"])
def test_ttft_has_the_shortest_time_to_the_first_token(simulated, trace):
    ttft = simulated(trace, "ttft")
    for other in (simulated(trace, "balanced"), simulated(trace, "tpot")):
        assert ttft.ttft_ms_mean < other.ttft_ms_mean
        assert ttft.ttft_ms_p50 < other.ttft_ms_p50
        assert ttft.ttft_ms_p95 < other.ttft_ms_p95


@pytest.mark.parametrize("trace", ["rag", "chat", "long", "burst"])
def test_tpot_disturbs_decoding_least(simulated, trace):
    tpot = simulated(trace, "tpot")
    for other in (simulated(trace, "balanced"), simulated(trace, "ttft")):
        assert tpot.tpot_ms_p95 < other.tpot_ms_p95
        assert tpot.itl_ms_p99 < other.itl_ms_p99 / 2


@pytest.mark.parametrize("policy", simulate_scheduler.POLICIES)
def test_a_long_prompt_stalls_running_streams_for_no_more_than_its_chunks(policy):
    cost = CostModel()
    run = simulate(TRACES["long"](SEED), cost, policy=policy)
    chunk = 512 // 8 if policy == "tpot" else 512
    # The longest step: a chunk at the end of the long prompt beside fifteen long chats.
    longest = cost.step_ms(
        Work(chunk + 15, recomputed=0, kv_tokens=32_000 + 15 * 5000, pairs=512 * 32_000 + 15 * 5000)
    )
    allowed = 2 if policy == "ttft" else 1  # a step without decode tokens, and one with
    assert max(itls_ms(run)) <= allowed * longest


@pytest.mark.parametrize("policy", simulate_scheduler.POLICIES)
def test_scarce_pages_cost_preemptions_but_no_request(simulated, policy):
    scarce = simulated("scarce", policy)
    assert scarce.preempted > 10
    assert scarce.finished == 100
    assert scarce.utilization > 0.9


def test_every_request_that_is_not_cancelled_has_all_its_tokens():
    trace = TRACES["cancel"](SEED)
    run = simulate(trace, CostModel())
    for served in run.served:
        n = len(served.token_ms)
        assert n <= served.request.output_tokens
        assert n == served.request.output_tokens or served.request.cancel_ms is not None
    assert run.counters["finished"] + run.counters["cancelled"] == len(trace.requests)
    assert run.counters["cancelled"] > 10


def test_the_same_seed_gives_the_same_figures_and_another_seed_others():
    first, again, other = (
        figures("chat", "balanced", simulate(TRACES["chat"](seed), CostModel()))
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first.ttft_ms_mean != other.ttft_ms_mean


def test_figures_follow_their_definitions():
    request = TraceRequest(100.0, [1], 3)
    run = Run([Served(request, [150.0, 160.0, 190.0])], {"preempted": 0, "finished": 1}, 190.0)
    run.busy_ms, run.useful_ms = 80.0, 60.0
    assert ttfts_ms(run) == [50.0]
    assert itls_ms(run) == [10.0, 30.0]
    assert tpots_ms(run) == [20.0]
    result = figures("one", "balanced", run)
    assert result.e2el_ms_p50 == 90.0
    assert result.output_tokens_per_s == pytest.approx(3 / 0.09)
    assert result.utilization == 0.75


def test_a_lone_request_takes_what_its_steps_cost():
    cost = CostModel()
    prompt = list(range(600))
    run = simulate(Trace("one", [TraceRequest(0.0, prompt, 2)]), cost)
    triangle = np.cumsum(np.arange(601))
    first = cost.step_ms(Work(512, 0, kv_tokens=512, pairs=int(triangle[512])))
    second = cost.step_ms(Work(88, 0, kv_tokens=600, pairs=int(triangle[600] - triangle[512])))
    third = cost.step_ms(Work(1, 0, kv_tokens=601, pairs=601))
    assert run.served[0].token_ms == pytest.approx([first + second, first + second + third])


def test_a_decode_step_is_bound_by_memory_and_a_chunk_by_arithmetic():
    cost = CostModel(overhead_ms=0.0)
    weights_ms = 1e3 * cost.weight_bytes / cost.bandwidth
    assert cost.step_ms(Work(16, 0, 0, 0)) == pytest.approx(weights_ms)
    assert cost.step_ms(Work(512, 0, 0, 0)) == pytest.approx(1e3 * 520 / 960)
    assert cost.useful_ms(Work(512, 256, 0, 0)) == pytest.approx(1e3 * 264 / 960)


def test_the_tool_prints_one_object_as_json(capsys):
    arguments = ["--trace", "story", "equal", "--policy", "tpot", "--chunk", "64", "--json"]
    assert simulate_scheduler.main(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["seed"], printed["chunk_size"]) == (1, 64)
    assert [row["trace"] for row in printed["results"]] == ["story", "equal"]
    assert printed["results"][1]["finished"] == 48


def test_the_tool_prints_a_table_that_says_that_it_is_a_model(capsys):
    assert simulate_scheduler.main(["--trace", "equal"]) == 0
    shown = capsys.readouterr().out
    assert all(policy in shown for policy in simulate_scheduler.POLICIES)
    assert "not a measurement" in shown


def test_a_plot_is_drawn(capsys, tmp_path):
    path = tmp_path / "latency.png"
    assert simulate_scheduler.main(["--trace", "equal", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["--chunk", "0"], "--chunk is 0: expected 1"),
        (["--seed", "-1"], "--seed is -1: expected 0"),
        (["--plot", "/nowhere/at/all.png"], "no directory /nowhere/at"),
    ],
)
def test_what_a_flag_cannot_be_is_wrong_usage(capsys, arguments, named):
    with pytest.raises(SystemExit) as left:
        simulate_scheduler.main(arguments)
    assert left.value.code == 2
    assert named in capsys.readouterr().err
