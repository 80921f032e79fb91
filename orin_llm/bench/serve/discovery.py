"""What a server is and takes: found out before it is measured."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orin_llm.bench.serve.client import Client
from orin_llm.bench.serve.exchange import find_place
from orin_llm.bench.serve.failure import Failure
from orin_llm.bench.serve.load import Load
from orin_llm.bench.serve.plan import ServeCampaign
from orin_llm.bench.serve.prompts import WordCount, word_prompt
from orin_llm.bench.serve.session import Session
from orin_llm.errors import OrinError
from orin_llm.models.reporter import Reporter

_CONNECT_S = 10.0
_FEW, _MANY = 8, 256  # words of the prompts by which tokens are counted


@dataclass(frozen=True)
class Found:
    """A server that was found out about: how it is asked, and how many tokens words are."""

    client: Client
    count: WordCount

    @property
    def settings(self) -> dict[str, object]:
        """As those of an engine: `name` first."""
        client = self.client
        return {
            "name": client.place.address.authority,
            "url": str(client.place.address),
            "model": client.model,
            "server": client.server,
            "ignores_eos": "ignore_eos" in client.extras,
            "tells_usage": client.tells_usage,
        }


def find_server(campaign: ServeCampaign, session: Session, report: Reporter) -> Found:
    """Connect, choose a model, and learn what the server takes and tells.

    Raises:
        OrinError: nothing answers there, or not as such a server does.
    """
    try:
        place = session.call(find_place(campaign.address, min(_CONNECT_S, campaign.timeout_s)))
        client = Client(
            place,
            campaign.model,
            campaign.endpoint,
            campaign.key,
            body=campaign.body or {},
            timeout_s=campaign.timeout_s,
        )
        if not client.model:
            client = replace(client, model=_first_model(client, session, report))
        draw = random.Random(f"{campaign.seed} words")
        client = session.call(client.taught(word_prompt(draw, _FEW)))
        count = _count_words(client, campaign.loads, session, draw)
    except Failure as failure:
        raise OrinError(f"{campaign.address}: {failure}{_advice(failure)}") from None
    if "ignore_eos" not in client.extras:
        report.message("the server knows no ignore_eos: answers may be shorter than asked for")
    if not client.tells_usage:
        report.message("the server does not tell how many tokens an answer has: events are counted")
    if count is None:
        report.message("the server does not tell how many tokens a prompt has: words are counted")
    return Found(client, count or WordCount(0.0, 1.0))


def _advice(failure: Failure) -> str:
    if failure.kind == "connect":
        return " (is the server running there?)"
    if failure.kind == "HTTP 401":
        return " (--api-key, or ORIN_LLM_API_KEY)"
    if failure.kind == "HTTP 404":
        return " (is there another path, another --endpoint or --model?)"
    return ""


def _first_model(client: Client, session: Session, report: Reporter) -> str:
    try:
        names = session.call(client.models())
    except Failure as failure:
        if failure.kind not in ("HTTP 404", "HTTP 405", "stream"):
            raise
        names = []
    if not names:
        raise OrinError(
            f"{client.place.address} does not say which models it has: name one (--model)"
        )
    if len(names) > 1:
        report.message(f"{len(names)} models are there: {names[0]} is asked (--model)")
    return names[0]


def _count_words(
    client: Client, loads: Sequence[Load], session: Session, draw: random.Random
) -> WordCount | None:
    """How many tokens words are; None where the server does not tell, and where nobody asks."""
    longest = max(load.longest_prompt for load in loads)
    if not longest:
        return WordCount(0.0, 1.0)
    words = (_FEW, _FEW + max(32, min(_MANY, longest)))
    tokens: list[int] = []
    for number in words:
        try:
            told = session.call(client.prompt_tokens(word_prompt(draw, number)))
        except Failure as failure:
            if failure.kind in ("connect", "timeout", "disconnect"):
                raise
            told = None
        if told is None:
            return None
        tokens.append(told)
    return WordCount.of(words, tokens)
