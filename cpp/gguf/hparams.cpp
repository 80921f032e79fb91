#include "hparams.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "keys.h"
#include "limits.h"

namespace orin::gguf {

namespace {

constexpr Count layers{"block_count", "layers", 1, limits::max_layers, "max_layers"};
constexpr Count channels{"embedding_length", "channels", 1, limits::max_embedding, "max_embedding"};
constexpr Count context{"context_length", "tokens", 1, limits::max_context_length, "max_context_length"};
constexpr Count experts{"expert_count", "experts", 0, limits::max_experts, "max_experts"};
constexpr Count experts_used{"expert_used_count", "experts", 0, limits::max_experts, "max_experts"};
constexpr Count feed_forward{"feed_forward_length", "channels", 0, limits::max_feed_forward, "max_feed_forward"};
constexpr Count feed_forward_expert{"expert_feed_forward_length", "channels", 0, limits::max_feed_forward,
                                    "max_feed_forward"};
constexpr Count heads{"attention.head_count", "heads", 0, limits::max_heads, "max_heads"};
constexpr Count heads_kv{"attention.head_count_kv", "heads", 0, limits::max_heads, "max_heads"};
constexpr Count key_channels{"attention.key_length", "channels", 1, limits::max_head_size, "max_head_size"};
constexpr Count value_channels{"attention.value_length", "channels", 1, limits::max_head_size, "max_head_size"};
constexpr Count rope_channels{"rope.dimension_count", "channels", 1, limits::max_head_size, "max_head_size"};

// Optional counts that only have to be within bounds.
constexpr Count other_counts[] = {
    {"vocab_size", "tokens", 0, limits::max_vocab, "max_vocab"},
    {"attention.key_length_swa", "channels", 1, limits::max_head_size, "max_head_size"},
    {"attention.value_length_swa", "channels", 1, limits::max_head_size, "max_head_size"},
    {"rope.dimension_count_swa", "channels", 1, limits::max_head_size, "max_head_size"},
    {"rope.scaling.original_context_length", "tokens", 0, limits::max_context_length, "max_context_length"},
    {"attention.sliding_window", "tokens", 0, limits::max_window, "max_window"},
    {"expert_gating_func", "", 0, limits::max_expert_gating, "max_expert_gating"},
    {"pooling_type", "", 0, limits::max_pooling_type, "max_pooling_type"},
};

constexpr const char * epsilons[] = {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon",
                                     "attention.group_norm_epsilon"};
constexpr const char * frequencies[] = {"rope.freq_base", "rope.freq_base_swa"};
constexpr const char * factors[] = {"rope.scaling.factor",    "rope.scale_linear",       "rope.scaling.attn_factor",
                                    "attn_logit_softcapping", "final_logit_softcapping", "router_logit_softcapping"};

std::string check_architecture(const Header & header) {
    const std::string key = "general.architecture";
    const Value * value = find_scalar(header, key, ValueType::string);
    if (!value) {
        fail_missing(key, "the name of the model's architecture");
    }
    const std::string arch(value->as_string());
    if (arch.empty()) {
        fail_key(key, *value, "the architecture's name is empty");
    }
    if (arch == "clip") {
        fail_key(key, *value, "a multimodal projector, not a language model: give the model's own file", Advice::none);
    }
    const Value * type = find_scalar(header, "general.type", ValueType::string);
    if (type && type->as_string() == "adapter") {
        fail_key("general.type", *type, "a LoRA adapter, not a model: give the model's own file", Advice::none);
    }
    return arch;
}

// The value of a u32 key, or `otherwise` where it is missing.
uint64_t read_count(const Header & header, const HParams & hp, const Count & count, uint64_t otherwise) {
    const std::string key = hp.key(count.suffix);
    const Value * value = find_scalar(header, key, ValueType::u32);
    if (!value) {
        return otherwise;
    }
    check_count(key, *value, value->as_unsigned(), count);
    return value->as_unsigned();
}

uint64_t require_count(const Header & header, const HParams & hp, const Count & count) {
    const uint64_t found = read_count(header, hp, count, 0);
    if (found == 0) {
        fail_missing(hp.key(count.suffix), text("the number of ", count.noun));
    }
    return found;
}

const Value * find_float(const Header & header, const HParams & hp, const char * suffix) {
    return find_scalar(header, hp.key(suffix), ValueType::f32);
}

void check_floats(const Header & header, const HParams & hp) {
    for (const char * suffix : epsilons) {
        const Value * value = find_float(header, hp, suffix);
        if (value && !(value->as_double() > 0 && value->as_double() <= limits::max_epsilon)) {
            fail_key(
                hp.key(suffix), *value,
                text(value->as_double(), ", expected more than 0 and at most ", limits::max_epsilon, " (max_epsilon)"));
        }
    }
    for (const char * suffix : frequencies) {
        const Value * value = find_float(header, hp, suffix);
        if (value && !(value->as_double() > 0 && std::isfinite(value->as_double()))) {
            fail_key(hp.key(suffix), *value, text(value->as_double(), ", expected a finite number above 0"));
        }
    }
    for (const char * suffix : factors) {
        const Value * value = find_float(header, hp, suffix);
        if (value && !(value->as_double() >= 0 && std::isfinite(value->as_double()))) {
            fail_key(hp.key(suffix), *value, text(value->as_double(), ", expected a finite number of at least 0"));
        }
    }
}

// Whatever a hyperparameter means, it is a number.
void check_finite(const Header & header, const HParams & hp) {
    const std::string prefix = hp.arch + ".";
    for (const Entry & entry : header.metadata) {
        if (!entry.value.is_float() || entry.key.compare(0, prefix.size(), prefix) != 0) {
            continue;
        }
        for (uint64_t i = 0; i < entry.value.count(); ++i) {
            const double number = entry.value.as_double(i);
            if (std::isnan(number) || (!entry.value.is_array() && std::isinf(number))) {
                fail_key(entry.key, entry.value, text(number, ", expected a finite number"));
            }
        }
    }
}

void check_rope_scaling(const Header & header, const HParams & hp) {
    const std::string key = hp.key("rope.scaling.type");
    const Value * value = find_scalar(header, key, ValueType::string);
    if (!value) {
        return;
    }
    static const std::set<std::string_view> known = {"none", "linear", "yarn", "longrope"};
    if (known.count(value->as_string()) == 0) {
        fail_key(key, *value, text("'", printable(value->as_string()), "', expected none, linear, yarn or longrope"),
                 Advice::unsupported);
    }
}

void check_experts(const Header & header, HParams & hp) {
    hp.n_expert = read_count(header, hp, experts, 0);
    hp.n_expert_used = per_layer(header, hp.key(experts_used.suffix), hp.n_layer, experts_used);
    hp.n_ff_expert = per_layer(header, hp.key(feed_forward_expert.suffix), hp.n_layer, feed_forward_expert);

    const uint64_t used =
        hp.n_expert_used.empty() ? 0 : *std::max_element(hp.n_expert_used.begin(), hp.n_expert_used.end());
    if (used > hp.n_expert || (hp.n_expert > 0 && used == 0)) {
        fail_key(header, hp.key(experts_used.suffix), text(used, " experts used of ", hp.n_expert));
    }

    constexpr Count groups{"expert_group_count", "groups", 0, limits::max_experts, "max_experts"};
    constexpr Count groups_used{"expert_group_used_count", "groups", 0, limits::max_experts, "max_experts"};
    const uint64_t n_groups = read_count(header, hp, groups, 0);
    const uint64_t n_used = read_count(header, hp, groups_used, 0);
    const std::string groups_key = hp.key(groups.suffix);
    if (n_groups > 0 && (n_groups >= hp.n_expert || hp.n_expert % n_groups != 0)) {
        fail_key(header, groups_key, text(hp.n_expert, " experts in ", n_groups, " groups"));
    }
    if (n_groups > 1 && (n_used == 0 || n_used >= n_groups)) {
        fail_key(header, groups_key, text(n_used, " groups used of ", n_groups));
    }
}

void check_attention(const Header & header, HParams & hp) {
    hp.n_head = per_layer(header, hp.key(heads.suffix), hp.n_layer, heads);
    hp.n_head_kv = per_layer(header, hp.key(heads_kv.suffix), hp.n_layer, heads_kv);
    if (hp.n_head_kv.empty()) {
        hp.n_head_kv = hp.n_head;
    }
    if (hp.n_head.empty()) {
        return;
    }
    const std::string kv_key = hp.key(heads_kv.suffix);
    for (uint64_t il = 0; il < hp.n_layer; ++il) {
        if (hp.n_head_kv[il] > 0 && hp.n_head[il] % hp.n_head_kv[il] != 0) {
            fail_key(header, kv_key,
                     text(hp.n_head[il], " heads cannot share ", hp.n_head_kv[il], " KV heads in layer ", il));
        }
    }
    const uint64_t head = hp.n_head[0] > 0 ? hp.n_embd / hp.n_head[0] : 0;
    hp.head_k = read_count(header, hp, key_channels, head);
    hp.head_v = read_count(header, hp, value_channels, head);
    hp.n_rot = read_count(header, hp, rope_channels, hp.head_k);
    if (hp.n_rot > hp.head_k && hp.head_k > 0) {
        const std::string key = hp.key(rope_channels.suffix);
        fail_key(header, key, text(hp.n_rot, " channels, but heads have ", hp.head_k));
    }
    for (const char * suffix : {rope_channels.suffix, "rope.dimension_count_swa"}) {
        const Value * value = header.find(hp.key(suffix));
        if (value && value->as_unsigned() % 2 != 0) {
            fail_key(hp.key(suffix), *value, text(value->as_unsigned(), " channels, expected an even number"));
        }
    }
}

void check_prediction_layers(const Header & header, const HParams & hp) {
    const Count count{"nextn_predict_layers", "layers", 0, hp.n_layer - 1, "block_count - 1"};
    read_count(header, hp, count, 0);
}

void check_general(const Header & header) {
    find_scalar(header, "general.name", ValueType::string);
    find_scalar(header, "general.file_type", ValueType::u32);
    find_scalar(header, "tokenizer.chat_template", ValueType::string);
}

}  // namespace

HParams check_hparams(const Header & header) {
    HParams hp;
    hp.arch = check_architecture(header);
    check_general(header);
    check_floats(header, hp);
    check_finite(header, hp);
    check_rope_scaling(header, hp);
    for (const Count & count : other_counts) {
        read_count(header, hp, count, 0);
    }
    find_scalar(header, hp.key("attention.causal"), ValueType::boolean);
    if (header.tensors.empty() && !header.find(hp.key(layers.suffix))) {
        return hp;
    }
    hp.n_layer = require_count(header, hp, layers);
    hp.n_embd = require_count(header, hp, channels);
    require_count(header, hp, context);
    check_prediction_layers(header, hp);
    hp.n_ff = per_layer(header, hp.key(feed_forward.suffix), hp.n_layer, feed_forward);
    check_experts(header, hp);
    check_attention(header, hp);
    return hp;
}

}  // namespace orin::gguf
