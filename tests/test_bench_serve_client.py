"""What a client measures of a server whose delays are known, on a clock that is exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from stub_server import Stub
from virtual_time import run_virtually

from orin_llm.bench.serve.address import Address
from orin_llm.bench.serve.client import Client, Order, Outcome
from orin_llm.bench.serve.exchange import find_place
from orin_llm.bench.serve.failure import Failure
from orin_llm.bench.serve.prompts import Prompt
from orin_llm.errors import UsageError

PROMPT = Prompt.of("one two three", 99)
EXTRAS = {"stream_options": {"include_usage": True}}


async def client_of(url: str, **settings: Any) -> Client:
    place = await find_place(Address.parse(url), 5)
    return replace(Client(place, "stub", extras=EXTRAS), **settings)


def complete(stub: Stub, max_tokens: int = 5, **settings: Any) -> Outcome:
    async def work() -> Outcome:
        async with stub.listening() as url:
            client = await client_of(url, **settings)
            return await client.complete(Order(PROMPT, max_tokens), 0.0)

    return run_virtually(work())


def test_times_are_exactly_the_delays_of_the_server() -> None:
    outcome = complete(Stub(first_ms=120, gap_ms=30, end_ms=500))
    record = outcome.record
    assert record.error == ""
    assert record.ttft_ms == pytest.approx(120)
    assert record.itl_ms == pytest.approx((30, 30, 30, 30))
    assert record.e2el_ms == pytest.approx(240)  # what comes behind the last token is no answer
    assert record.tpot_ms == pytest.approx(30)
    assert outcome.connect_ms == pytest.approx(0)
    assert (record.prompt_tokens, record.output_tokens) == (17, 5)
    assert record.told_tokens == 5 and outcome.finish_reason == "length"


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_both_endpoints_are_read_also_where_a_server_compresses(
    endpoint: str, encoding: str
) -> None:
    stub = Stub(first_ms=50, gap_ms=10, encoding=encoding)
    record = complete(stub, endpoint=endpoint).record
    assert (record.ttft_ms, record.e2el_ms) == (pytest.approx(50), pytest.approx(90))
    (asked,) = stub.completions()
    assert (
        asked.path == {"chat": "/v1/chat/completions", "completions": "/v1/completions"}[endpoint]
    )
    assert asked.prompt == "one two three"


def test_a_request_says_what_is_measured_and_nothing_else() -> None:
    stub = Stub(key="secret")
    complete(stub, key="secret", body={"cache_prompt": False, "temperature": 1})
    (asked,) = stub.completions()
    assert asked.body == {
        "model": "stub",
        "messages": [{"role": "user", "content": "one two three"}],
        "max_tokens": 5,
        "temperature": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "cache_prompt": False,
    }
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.headers["accept-encoding"] == "identity"


def test_a_field_that_the_user_sets_to_null_is_left_out() -> None:
    stub = Stub()
    complete(stub, body={"temperature": None, "stream_options": None})
    assert not {"temperature", "stream_options"} & stub.completions()[0].body.keys()


def test_tokens_that_come_together_are_counted_by_what_the_server_tells() -> None:
    record = complete(Stub(first_ms=100, gap_ms=40, bundle=4), max_tokens=10).record
    assert (len(record.token_ms), record.output_tokens) == (3, 10)
    assert record.itl_ms == pytest.approx((40, 40))
    assert record.tpot_ms == pytest.approx(80 / 9)


def test_without_usage_events_are_counted_and_the_prompt_is_as_long_as_meant() -> None:
    record = complete(Stub(usage=False, bundle=2), max_tokens=6).record
    assert (record.output_tokens, record.prompt_tokens) == (3, 99)
    assert record.told_tokens is None


def test_what_the_server_had_in_its_cache_is_told() -> None:
    assert complete(Stub(cached=16)).record.cached_tokens == 16


def taught(stub: Stub) -> Client:
    async def work() -> Client:
        async with stub.listening() as url:
            return await (await client_of(url)).taught(PROMPT)

    return run_virtually(work())


@pytest.mark.parametrize(
    ("refuses", "extras", "asked"),
    [
        ((), {"ignore_eos", "stream_options"}, 1),
        (("ignore_eos",), {"stream_options"}, 2),
        (("stream_options",), {"ignore_eos"}, 3),
        (("ignore_eos", "stream_options"), set(), 4),
    ],
)
def test_what_a_server_does_not_take_is_found_out_and_left_out(
    refuses: tuple[str, ...], extras: set[str], asked: int
) -> None:
    stub = Stub(refuses=refuses)
    client = taught(stub)
    assert (set(client.extras), client.server) == (extras, "stub/1")
    assert len(stub.completions()) == asked


def test_a_server_that_takes_nothing_is_told_as_it_first_refused() -> None:
    with pytest.raises(Failure, match=r"HTTP 400: 'unknown field max_tokens'"):
        taught(Stub(refuses=("max_tokens", "ignore_eos")))


def test_a_wrong_key_is_not_tried_again() -> None:
    stub = Stub(key="secret")
    with pytest.raises(Failure, match="HTTP 401: 'invalid api key'"):
        taught(stub)
    assert len(stub.asked) == 1


def test_models_are_those_that_have_a_name() -> None:
    async def work(models: Any) -> list[str]:
        stub = Stub(models=models)
        async with stub.listening() as url:
            return await (await client_of(url)).models()

    assert run_virtually(work(["a", "b"])) == ["a", "b"]
    assert run_virtually(work([1, None, "", "c"])) == ["c"]
    with pytest.raises(Failure, match="HTTP 404"):
        run_virtually(work(None))


@pytest.mark.parametrize("key", ["a\nb", "ключ", "a\r\nX: y", "a ", " "])
def test_a_key_that_no_header_can_have_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="--api-key"):
        complete(Stub(), key=key)


def test_a_key_is_shown_nowhere() -> None:
    shown: Callable[[object], str] = repr

    async def work() -> str:
        async with Stub().listening() as url:
            return shown(await client_of(url, key="secret"))

    assert "secret" not in run_virtually(work())
