"""Responses and events are read the same in whatever pieces they come, and never without an end."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orin_llm.bench.serve import response
from orin_llm.bench.serve.answer import Answer
from orin_llm.bench.serve.events import MAX_EVENT_BYTES, EventReader
from orin_llm.bench.serve.failure import Failure
from orin_llm.bench.serve.response import MAX_HEAD_BYTES, ResponseReader


def pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for begin, end in pairwise(places):
        yield data[begin:end]


cuts = st.lists(st.integers(0, 400), max_size=12)
texts = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=20)
END = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(st.lists(texts, min_size=1, max_size=3), max_size=5), END, cuts, st.booleans())
def test_events_are_those_that_were_written_however_they_are_cut(
    events: list[list[str]], end: str, cuts: list[int], noise: bool
) -> None:
    extra = f": a comment{end}event: message{end}id: 7{end}" if noise else ""
    written = "".join(
        extra + "".join(f"data: {line}{end}" for line in lines) + end for lines in events
    )
    reader = EventReader()
    found = [data for piece in pieces(written.encode(), cuts) for data in reader.push(piece)]
    assert found == ["\n".join(lines).encode() for lines in events]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_that_come_byte_by_byte_are_the_same(end: str) -> None:
    written = f"data: a{end}data: b{end}{end}data: c{end}{end}".encode()
    reader = EventReader()
    found = [data for byte in written for data in reader.push(bytes([byte]))]
    assert found == [b"a\nb", b"c"]


def test_events_may_begin_with_a_mark_and_without_a_blank() -> None:
    assert EventReader().push(b"\xef\xbb\xbfdata:one\n\ndata:  two\n\ndata\n\n") == [
        b"one", b" two", b""
    ]  # fmt: skip


def test_an_event_without_an_end_is_not_collected_for_ever() -> None:
    reader = EventReader()
    with pytest.raises(Failure, match="an event of more than 1048576 bytes"):
        for _ in range(MAX_EVENT_BYTES // 4096 + 1):
            reader.push(b"data: " + b"x" * 4096)
    reader = EventReader()
    with pytest.raises(Failure, match="an event of more than"):
        for _ in range(MAX_EVENT_BYTES // 1024 + 1):
            reader.push(b"data: " + b"x" * 1024 + b"\n")


def chunked(body: bytes, sizes: Sequence[int]) -> bytes:
    parts = [part for part in pieces(body, sizes) if part]
    written = b"".join(f"{len(part):X};x=y\r\n".encode() + part + b"\r\n" for part in parts)
    return written + b"0\r\nX-Trailer: 1\r\n\r\n"


ENCODERS = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress}


@given(st.binary(max_size=300), cuts, cuts, st.sampled_from(["chunked", "length", "end"]),
       st.sampled_from(list(ENCODERS)), st.booleans())  # fmt: skip
def test_a_body_is_what_was_sent_however_it_is_framed_encoded_and_cut(
    body: bytes, sizes: list[int], cuts: list[int], framing: str, encoding: str, interim: bool
) -> None:
    sent = ENCODERS[encoding](body)
    head = "HTTP/1.1 100 Continue\r\n\r\n" if interim else ""
    head += "HTTP/1.1 200 OK\r\nX-One:  two \r\n"
    head += f"Content-Encoding: {encoding}\r\n" if encoding else ""
    head += {"chunked": "Transfer-Encoding: chunked\r\n", "end": ""}.get(
        framing, f"Content-Length: {len(sent)}\r\n"
    )
    written = f"{head}\r\n".encode() + (chunked(sent, sizes) if framing == "chunked" else sent)
    reader = ResponseReader()
    reader.ask("GET", "/", {"Host": "host"})  # before it no interim answer may come
    found = b"".join(reader.push(piece) for piece in pieces(written, cuts))
    assert reader.done == (framing != "end")
    reader.end()
    assert (found, reader.status, reader.headers["x-one"], reader.done) == (body, 200, "two", True)


@given(st.binary(max_size=200), st.binary(max_size=200), cuts)
@settings(max_examples=300)
def test_any_bytes_are_an_answer_or_a_failure(head: bytes, body: bytes, cuts: list[int]) -> None:
    answer = Answer(5)
    try:
        for piece in pieces(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body, cuts):
            answer.push(1.0, piece)
        answer.end()
    except Failure as failure:
        assert failure.kind and "\n" not in str(failure)


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no HTTP", "answers 'SSH-2.0"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "no HTTP", "answers"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "no HTTP", "'HTTP/1.1 abc OK'"),
        (b"HTTP/1.1 a')\"\\\xff\r\n\r\n", "no HTTP", "illegal status line: .HTTP/1.1 a"),
        (b"HTTP/1.1 200 OK\r\nno field\r\n\r\n", "no HTTP", "illegal header line: 'no field'"),
        (b"HTTP/1.1 101 No\r\nUpgrade: x\r\n\r\n", "no HTTP", "in 'HTTP/1.1 101 No"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no HTTP", "Content-Length in '.*-1'"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "no HTTP",
            "conflicting Content-Length",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "no HTTP", "Encoding: gzip'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 99 + b"\r\n\r\n", "no HTTP", "Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n", "no HTTP", "'br'"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * (MAX_HEAD_BYTES + 9), "no HTTP", "headers of more"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no HTTP", "'zz'"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
            "no HTTP",
            "footer: 'bc'",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (MAX_HEAD_BYTES + 9),
            "no HTTP",
            "a line between chunks of more",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nplain", "no HTTP", "damaged"),
    ],
)
def test_what_is_no_response_is_told_in_one_line(said: bytes, kind: str, message: str) -> None:
    reader = ResponseReader()
    reader.ask("GET", "/", {"Host": "host"})
    with pytest.raises(Failure, match=message) as found:
        reader.push(said + (b"\r\n" if said.endswith(b"abc") else b""))
    assert found.value.kind == kind and len(str(found.value)) < 300


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"", "before its answer"),
        (b"HTTP/1.1 200", "within the headers"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "within its answer: .*3 bytes, expected 9",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "within its answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3", "within its answer"),
    ],
)
def test_an_end_that_comes_too_early_is_told(said: bytes, message: str) -> None:
    reader = ResponseReader()
    reader.push(said)
    with pytest.raises(Failure, match=message) as found:
        reader.end()
    assert found.value.kind == "disconnect"


def test_a_body_that_unpacks_without_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "MAX_BODY_BYTES", 1 << 16)
    reader = ResponseReader()
    with pytest.raises(Failure, match="an answer of more than 65536 bytes"):
        reader.push(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(1 << 20))
        )


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def text(content: object, reason: str | None = None) -> bytes:
    return event({"choices": [{"delta": {"content": content}, "finish_reason": reason}]})


def answer_to(*parts: bytes, max_tokens: int = 3) -> Answer:
    """Each part a millisecond later."""
    answer = Answer(max_tokens)
    for number, part in enumerate([HEAD, *parts]):
        answer.push(float(number), part)
    answer.end()
    return answer


def test_only_events_with_text_are_tokens() -> None:
    role = event({"choices": [{"delta": {"role": "assistant", "content": None}}]})
    done = b"data: [DONE]\n\n"
    found = answer_to(role, text(""), text("a"), text("b", "stop"), text(""), done)
    assert (found.event_ms, found.finished_ms, found.finish_reason) == ([3.0, 4.0], 4.0, "stop")
    thought = event({"choices": [{"delta": {"reasoning_content": "hm"}}]})
    found = answer_to(thought, text("a"), done)
    assert (found.event_ms, found.finished_ms) == ([1.0, 2.0], 2.0)


def test_what_llama_server_had_in_its_cache_is_told_by_its_timings() -> None:
    last = {"choices": [], "usage": {"prompt_tokens": 9}, "timings": {"cache_n": 7, "prompt_n": 2}}
    assert answer_to(text("a", "stop"), event(last)).usage.cached == 7
    assert answer_to(text("a", "stop"), event({"timings": [1]})).usage.cached is None


def test_usage_that_makes_no_sense_is_not_believed() -> None:
    for wrong in (-1, True, 1.5, "9", None, 1 << 40, [3]):
        usage = {"prompt_tokens": wrong, "completion_tokens": wrong, "prompt_tokens_details": wrong}
        found = answer_to(text("a", "stop"), event({"choices": [], "usage": usage})).usage
        assert (found.prompt, found.answer, found.cached) == (None, None, None)


@pytest.mark.parametrize(
    ("parts", "kind", "message"),
    [
        ((b"data: {broken\n\n",), "stream", "no JSON object: '{broken'"),
        ((b"data: [1]\n\n",), "stream", "no JSON object"),
        ((b"data: " + b"[" * 99999 + b"\n\n",), "stream", "no JSON object"),
        ((b"data: {\"a\": " + b"9" * 5000 + b"}\n\n",), "stream", "no JSON object"),
        ((text("a"),), "disconnect", "after 1 events, without an end"),
        ((b"<html>busy</html>",), "stream", "no event with text"),
        ((b"data: [DONE]\n\n",), "empty", "without text"),
        ((text("", "stop"),), "empty", "(stop)"),
        ((text("a"), event({"error": {"message": "out of\nmemory"}})), "server error", "'out of m"),
        ((text("a") * 99,), "too long", "did not end at 3 tokens"),
    ],
)  # fmt: skip
def test_a_stream_that_is_no_answer_is_told(
    parts: tuple[bytes, ...], kind: str, message: str
) -> None:
    with pytest.raises(Failure) as found:
        answer_to(*parts)
    assert found.value.kind == kind and message in str(found.value)


def test_events_of_any_shape_do_no_harm() -> None:
    shapes: list[object] = [{}, {"choices": None}, {"choices": [None]}, {"choices": [{}]},
                            {"choices": [{"delta": 5}]}, {"choices": {"0": 1}}]  # fmt: skip
    assert answer_to(*map(event, shapes), text("a", "stop")).event_ms == [7.0]
