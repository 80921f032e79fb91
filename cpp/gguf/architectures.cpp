#include "architectures.h"

namespace orin::gguf {

namespace {

constexpr Architecture table[] = {
    {"llama", whole_head_rope},
    {"mistral3", whole_head_rope},
    {"smollm3", whole_head_rope},
    {"minicpm", whole_head_rope},
    {"exaone", whole_head_rope},
    {"ernie4_5", whole_head_rope},
    {"qwen2", whole_head_rope},
    {"qwen3", whole_head_rope | qk_norm},
    {"qwen3moe", whole_head_rope | qk_norm | expert_layers},
    {"phi3", fused_gate},
    {"gemma", 0},
    {"gemma2", post_norms | sliding_window | always_window},
    {"gemma3", qk_norm | post_norms | sliding_window},
};

}  // namespace

const Architecture * find_architecture(const std::string & name) {
    for (const Architecture & arch : table) {
        if (arch.name == name) {
            return &arch;
        }
    }
    return nullptr;
}

std::vector<TensorRule> model_tensors() {
    return {{"token_embd.weight", {Size::embd, Size::vocab}}, {"output_norm.weight", {Size::embd}}};
}

std::vector<TensorRule> layer_tensors(const Architecture & arch, const HParams & hp) {
    std::vector<TensorRule> rules = {{"attn_norm.weight", {Size::embd}},
                                     {"attn_output.weight", {Size::query, Size::embd}},
                                     {"ffn_norm.weight", {Size::embd}}};
    if (arch.has(qk_norm)) {
        rules.push_back({"attn_q_norm.weight", {Size::head}});
        rules.push_back({"attn_k_norm.weight", {Size::head}});
    }
    if (arch.has(post_norms)) {
        rules.push_back({"post_attention_norm.weight", {Size::embd}});
        rules.push_back({"post_ffw_norm.weight", {Size::embd}});
    }
    if (arch.has(expert_layers) || hp.n_expert > 0) {
        const Size ff = arch.has(expert_layers) ? Size::ff_expert : Size::ff;
        rules.push_back({"ffn_gate_inp.weight", {Size::embd, Size::expert}});
        rules.push_back({"ffn_gate_exps.weight", {Size::embd, ff, Size::expert}});
        rules.push_back({"ffn_up_exps.weight", {Size::embd, ff, Size::expert}});
        rules.push_back({"ffn_down_exps.weight", {ff, Size::embd, Size::expert}});
        return rules;
    }
    if (!arch.has(fused_gate)) {
        rules.push_back({"ffn_gate.weight", {Size::embd, Size::ff}});
    }
    rules.push_back({"ffn_up.weight", {Size::embd, arch.has(fused_gate) ? Size::two_ff : Size::ff}});
    rules.push_back({"ffn_down.weight", {Size::ff, Size::embd}});
    return rules;
}

TensorRule fused_qkv() {
    return {"attn_qkv.weight", {Size::embd, Size::qkv}};
}

std::vector<TensorRule> separate_qkv() {
    return {{"attn_q.weight", {Size::embd, Size::query}},
            {"attn_k.weight", {Size::embd, Size::kv}},
            {"attn_v.weight", {Size::embd, Size::kv}}};
}

}  // namespace orin::gguf
