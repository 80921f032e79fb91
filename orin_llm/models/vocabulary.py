"""The Llama 3 vocabulary for synthetic models, whole or cut down."""

from __future__ import annotations

from typing import cast

from gguf import GGUFValueType as ValueType
from gguf import TokenType

from orin_llm.gguf.header import read_header
from orin_llm.models.gguf_io import Metadata, Value, metadata_of
from orin_llm.models.reporter import Reporter
from orin_llm.upstream import vocab_file

# The Llama 3 dialogue format.
CHAT_TEMPLATE = """\
{{ bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
{{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""


def llama_vocabulary(reporter: Reporter | None = None) -> Metadata:
    """The metadata of the vocabulary-only file of Llama 3 that ships with llama.cpp's sources.

    Raises:
        UpstreamError: the sources cannot be had.
    """
    report = (reporter or Reporter()).message
    return metadata_of(read_header(vocab_file("llama-bpe", report=report)))


def tokenizer_metadata(vocabulary: Metadata, n_vocab: int) -> Metadata:
    """The `tokenizer.*` keys of a chat model with the first tokens of a Llama 3 vocabulary.

    All control tokens are kept, and as many of the ordinary tokens, from the first, as fill
    `n_vocab`: the 256 bytes come first, so every text still has tokens, and the rest lie in merge
    order, so every token left can still be reached.

    Args:
        vocabulary: the metadata of a vocabulary-only file with a byte-level BPE vocabulary.
    """
    keys = {key: value for key, value in vocabulary.items() if key.startswith("tokenizer.")}
    tokens = cast("list[str]", keys["tokenizer.ggml.tokens"].value)
    types = cast("list[int]", keys["tokenizer.ggml.token_type"].value)
    merges = cast("list[str]", keys["tokenizer.ggml.merges"].value)

    ordinary = [i for i, kind in enumerate(types) if kind == TokenType.NORMAL]
    control = [i for i, kind in enumerate(types) if kind != TokenType.NORMAL]
    kept = ordinary[: n_vocab - len(control)] + control
    if len(kept) != n_vocab or n_vocab < len(control) + 256:
        raise ValueError(f"cannot make {n_vocab} tokens out of {len(tokens)}")

    texts = {tokens[i] for i in kept}
    kept_merges = [merge for merge in merges if _stays_inside(merge, texts)]
    new_id = {old: new for new, old in enumerate(kept)}
    eot = new_id[tokens.index("<|eot_id|>")]
    return keys | {
        "tokenizer.ggml.tokens": Value(ValueType.STRING, [tokens[i] for i in kept]),
        "tokenizer.ggml.token_type": Value(ValueType.INT32, [types[i] for i in kept]),
        "tokenizer.ggml.merges": Value(ValueType.STRING, kept_merges),
        "tokenizer.ggml.bos_token_id": Value.u32(new_id[keys["tokenizer.ggml.bos_token_id"].value]),
        "tokenizer.ggml.eos_token_id": Value.u32(eot),
        "tokenizer.chat_template": Value.string(CHAT_TEMPLATE),
    }


def _stays_inside(merge: str, texts: set[str]) -> bool:
    left, right = merge.split(" ")
    return left in texts and right in texts and left + right in texts
