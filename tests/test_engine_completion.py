"""Completions on the default model: what they say, where they end, what they reuse."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from stepping import step_probe

from orin_llm.engine import Completion, Engine, EngineConfig, Request, SamplingParams
from orin_llm.errors import OrinError, PromptTooLong, UsageError

GREEDY = SamplingParams(temperature=0)


def run(engine: Engine, prompt: str | list[int], **request: object) -> Completion:
    tokens = engine.tokenize(prompt) if isinstance(prompt, str) else prompt
    completion = engine.complete(
        Request(tokens, **{"sampling": GREEDY, "max_tokens": 24, **request})  # type: ignore[arg-type]
    )
    for _ in completion:
        pass
    return completion


def test_chunks_join_to_the_text_and_the_tokens_of_the_result(engine: Engine) -> None:
    completion = engine.complete(Request(engine.tokenize("Once upon a time"), GREEDY, 16))
    chunks = list(completion)
    result = completion.result
    assert "".join(chunk.text for chunk in chunks) == result.text
    assert tuple(t for chunk in chunks for t in chunk.token_ids) == result.token_ids
    assert result.text == engine.detokenize(result.token_ids).decode()
    assert result.completion_tokens == 16
    assert result.finish_reason == "length"
    assert len(result.timings.itl_ms) == 15


def test_a_stop_text_ends_the_answer_and_is_not_part_of_it(engine: Engine) -> None:
    whole = run(engine, "One, two, three, four,").result.text
    stop = whole[8:11]
    result = run(engine, "One, two, three, four,", stop=(stop,)).result
    assert result.text == whole[: whole.index(stop)]
    assert result.finish_reason == "stop"


def test_an_answer_cut_inside_a_character_does_not_show_half_of_it(engine: Engine) -> None:
    smile = "\N{SLIGHTLY SMILING FACE}"
    cut = 0
    for n in range(1, 9):
        result = run(engine, f"Smile {smile * 3}", max_tokens=n).result
        written = engine.detokenize(result.token_ids)
        assert written.decode("utf-8", "ignore") == result.text
        cut += written != result.text.encode()
    assert cut > 0  # some of these ended inside a character


def test_an_end_token_ends_the_answer(engine: Engine) -> None:
    chat = "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n"
    tokens = engine.tokenize(chat, parse_special=True)
    result = run(engine, tokens, max_tokens=200).result
    assert result.finish_reason == "stop"
    assert result.timings.ttft_ms > 0
    assert not set(result.token_ids) & engine.eog_ids


def test_max_tokens_zero_computes_nothing(engine: Engine) -> None:
    result = run(engine, "Hello", max_tokens=0).result
    assert (result.text, result.completion_tokens, result.finish_reason) == ("", 0, "length")


def test_a_second_turn_computes_only_what_is_new(engine: Engine) -> None:
    first = engine.tokenize("The capital of France is")
    answer = run(engine, first).result.token_ids
    second = [*first, *answer, *engine.tokenize(" And the capital of Spain is")]
    result = run(engine, second).result
    in_cache = len(first) + len(answer) - 1  # the newest was only drawn
    page_size = engine.config.page_size
    assert result.cached_tokens == in_cache // page_size * page_size > 0
    engine.forget()
    assert run(engine, second).result.token_ids == result.token_ids


def test_interleaved_completions_do_not_disturb_each_other(engine: Engine) -> None:
    prompts = ["The sun rises in the", "A recipe for bread:"]
    alone = [run(engine, prompt, max_tokens=8).result.token_ids for prompt in prompts]
    both = [engine.complete(Request(engine.tokenize(p), GREEDY, 8)) for p in prompts]
    for _ in range(9):
        for completion in both:
            next(completion, None)
    assert [completion.result.token_ids for completion in both] == alone


def test_threads_share_an_engine(engine: Engine) -> None:
    prompts = [f"Number {i} is" for i in range(4)]
    alone = [run(engine, prompt, max_tokens=6).result.token_ids for prompt in prompts]
    found: dict[int, tuple[int, ...]] = {}

    def work(i: int) -> None:
        found[i] = run(engine, prompts[i], max_tokens=6).result.token_ids

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(len(prompts))] == alone


def test_a_closed_completion_keeps_what_was_written(engine: Engine) -> None:
    completion = engine.complete(Request(engine.tokenize("Count: 1 2 3"), GREEDY, 20))
    for _ in range(3):
        next(completion)
    completion.close()
    assert list(completion) == []
    assert completion.result.completion_tokens == 3
    assert completion.result.finish_reason == "cancelled"


def test_the_same_seed_draws_the_same_tokens_and_another_does_not(engine: Engine) -> None:
    def drawn(seed: int) -> tuple[int, ...]:
        sampling = SamplingParams(temperature=1.5, top_k=0, top_p=1, min_p=0, seed=seed)
        return run(engine, "Dear", sampling=sampling).result.token_ids

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_top_k_one_is_greedy_whatever_the_temperature(engine: Engine) -> None:
    sampling = SamplingParams(temperature=5, top_k=1)
    greedy = run(engine, "Roses are").result.token_ids
    assert run(engine, "Roses are", sampling=sampling).result.token_ids == greedy


def test_a_bias_of_minus_infinity_bans_a_token(engine: Engine) -> None:
    banned = run(engine, "Roses are", max_tokens=1).result.token_ids[0]
    sampling = SamplingParams(temperature=0, logit_bias={banned: -np.inf})
    assert banned not in run(engine, "Roses are", sampling=sampling).result.token_ids


def test_a_frequency_penalty_breaks_repetition(engine: Engine) -> None:
    prompt = "no no no no no no no no"
    plain = run(engine, prompt).result.token_ids
    sampling = SamplingParams(temperature=0, frequency_penalty=2.0, penalty_window=-1)
    penalized = run(engine, prompt, sampling=sampling).result.token_ids
    assert len(set(penalized)) > len(set(plain))


def test_logprobs_are_the_log_softmax_of_the_logits(engine: Engine) -> None:
    completion = engine.complete(
        Request(engine.tokenize("The sky is"), GREEDY, max_tokens=1, logprobs=5)
    )
    (entry,) = next(completion).logprobs
    session = step_probe(engine)
    session.prefill(engine.tokenize("The sky is"))
    logits = session.logits().astype(np.float64)
    expected = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
    assert entry.logprob == pytest.approx(expected[entry.token], abs=1e-5)
    assert [token for token, _ in entry.top] == list(np.argsort(-expected, kind="stable")[:5])
    for token, logprob in entry.top:
        assert logprob == pytest.approx(expected[token], abs=1e-5)


def test_a_prompt_that_fills_the_context_is_refused_with_both_sizes(engine: Engine) -> None:
    tokens = engine.tokenize("word " * 3000)
    with pytest.raises(PromptTooLong, match=rf"{len(tokens)} tokens.*{engine.n_ctx}"):
        engine.complete(Request(tokens))


def test_an_answer_ends_where_the_context_is_full(smollm2: Path) -> None:
    with Engine(smollm2, EngineConfig(n_ctx=64, threads=1)) as small:
        tokens = small.tokenize("word " * 100)[: small.n_ctx - 3]
        bans = SamplingParams(temperature=0, logit_bias=dict.fromkeys(small.eog_ids, -np.inf))
        result = run(small, tokens, sampling=bans, max_tokens=None).result
    assert result.completion_tokens == 3
    assert result.finish_reason == "length"


@pytest.mark.parametrize(
    "request_fields",
    [{"prompt_tokens": []}, {"max_tokens": -1}, {"stop": ("",)}, {"logprobs": -1}],
)
def test_a_request_that_cannot_work_is_refused(request_fields: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Request(**{"prompt_tokens": [1], **request_fields})  # type: ignore[arg-type]


def test_token_ids_outside_the_vocabulary_are_refused(engine: Engine) -> None:
    with pytest.raises(OrinError, match="outside the vocabulary"):
        run(engine, [1, engine.n_vocab])
    with pytest.raises(OrinError, match="outside the vocabulary"):
        engine.token_bytes(-1)
    with pytest.raises(UsageError, match="outside the vocabulary"):
        run(engine, "hi", sampling=SamplingParams(logit_bias={engine.n_vocab: 1.0}))
    assert run(engine, "Still", max_tokens=1).result.completion_tokens == 1
