"""What a header says about a model in words: quantization, types, the template's features."""

from __future__ import annotations

from fake_headers import FakeHeader, llama_3_8b

from orin_llm.models import describe


def test_the_quantization_is_told_by_the_file_then_its_name_then_its_tensors() -> None:
    tensors = llama_3_8b().tensors
    stated = FakeHeader({"general.file_type": 15}, tensors)
    assert describe.quant(stated, "x-Q8_0.gguf") == "Q4_K_M"
    assert describe.quant(FakeHeader({}, tensors), "x-Q8_0.gguf") == "Q8_0"
    assert describe.quant(FakeHeader({}, tensors), "x.gguf") == "Q4_K"


def test_the_type_mix_lists_the_largest_share_first() -> None:
    mix = describe.type_mix(llama_3_8b())
    assert [(share.type, share.tensors) for share in mix] == [
        ("Q4_K", 193),
        ("Q6_K", 33),
        ("F32", 66),
    ]
    assert sum(share.bytes for share in mix) == 4_912_898_304


def test_template_features_are_read_off_its_words() -> None:
    template = "{% if tools %}…{% endif %}{{ messages[0].role == 'system' }}<think>"
    found = describe.template_features(FakeHeader({"tokenizer.chat_template": template}))
    assert found == ["system prompt", "tools", "thinking"]
    assert describe.template_features(FakeHeader({})) is None
    assert describe.template_features(FakeHeader({"tokenizer.chat_template": "x"})) == []
