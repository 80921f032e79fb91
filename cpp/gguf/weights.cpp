#include "weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include "architectures.h"
#include "keys.h"
#include "tensor_types.h"

namespace orin::gguf {

namespace {

Place place_of(const TensorInfo & tensor) {
    return {Part::tensor, tensor.name, tensor.info_offset};
}

bool begins(const std::string & name, const char * start) {
    return name.rfind(start, 0) == 0;
}

bool ends(const std::string & name, const std::string & end) {
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

bool is_vector(const TensorInfo & tensor) {
    return tensor.shape[0] == tensor.elements;
}

// Types for which llama.cpp has no kernel where it would use the tensor: it asserts, or calls through null.
void check_type(const TensorInfo & tensor, bool known_architecture) {
    const bool is_f32 = tensor.type->id == type_ids::f32;
    const bool is_factor = begins(tensor.name, "rope_freqs.") || begins(tensor.name, "rope_factors_");
    if ((is_factor || (known_architecture && is_vector(tensor))) && !is_f32) {
        fail(place_of(tensor), text("of type ", tensor.type->name, ", expected F32"));
    }
    const bool is_index = tensor.type->id == type_ids::i32 && !known_architecture;
    if (!tensor.type->is_weight && !is_index) {
        fail(place_of(tensor), text("of type ", tensor.type->name, ", which weights cannot have"));
    }
}

// llama.cpp asserts that an NVFP4 matrix with a scale has no bias, and that a scaled output is not the embedding.
void check_nvfp4(const Header & header, const TensorInfo & tensor) {
    if (tensor.type->id != type_ids::nvfp4 || !ends(tensor.name, ".weight")) {
        return;
    }
    const std::string base = tensor.name.substr(0, tensor.name.size() - 7);
    if (header.find_tensor(base + ".scale") && header.find_tensor(base + ".bias")) {
        fail(place_of(tensor), "an NVFP4 matrix with both a scale and a bias", Advice::unsupported);
    }
    const bool scaled_output = header.find_tensor("output.scale") || header.find_tensor("output.input_scale");
    if (tensor.name == "token_embd.weight" && scaled_output && !header.find_tensor("output.weight")) {
        fail(place_of(tensor), "a scale for the output, but no output matrix", Advice::unsupported);
    }
}

std::string shape_text(const std::vector<uint64_t> & shape) {
    std::string shown = "[";
    for (const uint64_t size : shape) {
        shown += (shown.size() > 1 ? ", " : "") + std::to_string(size);
    }
    return shown + "]";
}

class LayoutCheck {
   public:
    LayoutCheck(const Header & header, const HParams & hp, const Architecture & arch, uint64_t n_vocab)
        : header_(header), hp_(hp), arch_(arch), n_vocab_(n_vocab) {}

    void run() {
        check_hyperparameters();
        for (const TensorRule & rule : model_tensors()) {
            require("", rule);
        }
        check_if_present("", {"output.weight", {Size::embd, Size::vocab}});
        const std::vector<TensorRule> rules = layer_tensors(arch_, hp_);
        for (uint64_t il = 0; il < hp_.n_layer; ++il) {
            const std::string prefix = text("blk.", il, ".");
            if (!check_if_present(prefix, fused_qkv())) {
                require_all(prefix, separate_qkv());
            }
            require_all(prefix, rules);
        }
    }

   private:
    // What the graphs of these architectures assert or divide by, beyond what every model must keep.
    void check_hyperparameters() const {
        require_uniform("attention.head_count", hp_.n_head);
        require_uniform("attention.head_count_kv", hp_.n_head_kv);
        if (!has_experts() || !arch_.has(expert_layers)) {
            require_uniform("feed_forward_length", hp_.n_ff);
        }
        if (has_experts()) {
            require_uniform("expert_used_count", hp_.n_expert_used);
        } else if (arch_.has(expert_layers)) {
            fail_missing(hp_.key("expert_count"), "the number of experts");
        }
        forbid("nextn_predict_layers");
        if (!header_.find(hp_.key("attention.key_length")) && hp_.n_embd % hp_.n_head[0] != 0) {
            fail_at("attention.head_count",
                    text(hp_.n_embd, " channels cannot be shared by ", hp_.n_head[0], " heads"));
        }
        if (hp_.head_k != hp_.head_v) {
            fail_at("attention.value_length", text(hp_.head_v, " channels, but keys have ", hp_.head_k));
        }
        if (hp_.head_k == 0 || hp_.n_rot > hp_.head_k || (arch_.has(whole_head_rope) && hp_.n_rot != hp_.head_k)) {
            fail_at("rope.dimension_count", text(hp_.n_rot, " channels, but heads have ", hp_.head_k));
        }
        if (arch_.has(sliding_window)) {
            check_window();
        }
    }

    void check_window() const {
        const Value * window = header_.find(hp_.key("attention.sliding_window"));
        if (window && window->as_unsigned() == 0 && arch_.has(always_window)) {
            fail_at("attention.sliding_window", "0 tokens, expected at least 1");
        }
        const bool has_window = arch_.has(always_window) || (window && window->as_unsigned() > 0);
        const Value * pattern = header_.find(hp_.key("attention.sliding_window_pattern"));
        if (!has_window || !pattern) {
            return;
        }
        if (!pattern->is_integer()) {
            fail_at("attention.sliding_window_pattern", text("of type ", pattern->type_name(), ", expected u32"));
        }
        bool any = !pattern->is_array() && pattern->as_unsigned() != 1;
        for (uint64_t il = 0; pattern->is_array() && il < std::min(hp_.n_layer, pattern->count()); ++il) {
            any = any || pattern->as_unsigned(il) != 0;
        }
        if (!any) {
            fail_at("attention.sliding_window_pattern", "no layer has the window that attention.sliding_window gives");
        }
    }

    bool has_experts() const { return hp_.n_expert > 0; }

    [[noreturn]] void fail_at(const char * suffix, const std::string & found) const {
        const Value * value = header_.find(hp_.key(suffix));
        fail({Part::key, hp_.key(suffix), value ? std::optional(value->offset()) : std::nullopt}, found);
    }

    void require_uniform(const char * suffix, const std::vector<uint64_t> & counts) const {
        if (counts.empty()) {
            fail_missing(hp_.key(suffix), "a number");
        }
        if (counts[0] == 0) {
            fail_at(suffix, "0, expected at least 1");
        }
        for (size_t il = 0; il < counts.size(); ++il) {
            if (counts[il] != counts[0]) {
                fail_at(suffix, text(counts[il], " in layer ", il, ", but ", counts[0],
                                     " in layer 0: the layers of this architecture are alike"));
            }
        }
    }

    void forbid(const char * suffix) const {
        const Value * value = header_.find(hp_.key(suffix));
        if (value && value->as_unsigned() != 0) {
            fail_at(suffix, text(value->as_unsigned(), ", which this architecture has not"));
        }
    }

    // PRECOND: check_hyperparameters passed
    uint64_t size_of(Size size) const {
        const uint64_t query = hp_.n_head[0] * hp_.head_k;
        const uint64_t kv = hp_.n_head_kv[0] * hp_.head_k;
        const uint64_t ff = hp_.n_ff.empty() ? 0 : hp_.n_ff[0];
        switch (size) {
            case Size::embd:
                return hp_.n_embd;
            case Size::vocab:
                return n_vocab_;
            case Size::query:
                return query;
            case Size::kv:
                return kv;
            case Size::qkv:
                return query + 2 * kv;
            case Size::head:
                return hp_.head_k;
            case Size::ff:
                return ff;
            case Size::two_ff:
                return 2 * ff;
            case Size::ff_expert:
                return expert_width(ff);
            case Size::expert:
                return hp_.n_expert;
        }
        return 0;
    }

    uint64_t expert_width(uint64_t ff) const {
        const uint64_t own = hp_.n_ff_expert.empty() ? 0 : hp_.n_ff_expert[0];
        return own > 0 ? own : ff / hp_.n_expert_used[0];
    }

    void require_all(const std::string & prefix, const std::vector<TensorRule> & rules) const {
        for (const TensorRule & rule : rules) {
            require(prefix, rule);
        }
    }

    void require(const std::string & prefix, const TensorRule & rule) const {
        if (!check_if_present(prefix, rule)) {
            fail({Part::tensor, prefix + rule.name, std::nullopt},
                 text("missing, but every ", arch_.name, " model has it"));
        }
    }

    bool check_if_present(const std::string & prefix, const TensorRule & rule) const {
        const TensorInfo * tensor = header_.find_tensor(prefix + rule.name);
        if (!tensor) {
            return false;
        }
        std::vector<uint64_t> expected;
        for (const Size size : rule.shape) {
            expected.push_back(size_of(size));
        }
        std::vector<uint64_t> found = tensor->shape;
        while (found.size() > expected.size() && found.back() == 1) {
            found.pop_back();
        }
        if (found != expected) {
            fail(place_of(*tensor), text("of shape ", shape_text(tensor->shape), ", expected ", shape_text(expected)));
        }
        return true;
    }

    const Header & header_;
    const HParams & hp_;
    const Architecture & arch_;
    const uint64_t n_vocab_;
};

}  // namespace

void check_weights(const Header & header, const HParams & hp, uint64_t n_vocab) {
    const Architecture * arch = find_architecture(hp.arch);
    for (const TensorInfo & tensor : header.tensors) {
        check_type(tensor, arch != nullptr);
        check_nvfp4(header, tensor);
    }
    if (arch) {
        LayoutCheck(header, hp, *arch, n_vocab).run();
    }
}

}  // namespace orin::gguf
