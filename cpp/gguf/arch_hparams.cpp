#include "arch_hparams.h"

#include <algorithm>
#include <string>
#include <vector>

#include "keys.h"

namespace orin::gguf {

namespace {

class ArchCheck {
   public:
    ArchCheck(const Header & header, const HParams & hp, const Architecture & arch)
        : header_(header), hp_(hp), arch_(arch) {}

    void run() const {
        forbid("nextn_predict_layers");
        check_layers();
        check_heads();
        check_rope();
        require_same("embedding_length_out", hp_.n_embd);
        if (arch_.has(sliding_window)) {
            check_window();
        }
    }

   private:
    void check_layers() const {
        require_uniform("attention.head_count", hp_.n_head);
        require_uniform("attention.head_count_kv", hp_.n_head_kv);
        if (!arch_.has(expert_layers)) {
            require_uniform("feed_forward_length", hp_.n_ff);
        }
        if (hp_.n_expert > 0) {
            require_uniform("expert_used_count", hp_.n_expert_used);
        } else if (arch_.has(expert_layers)) {
            fail_missing(hp_.key("expert_count"), "the number of experts");
        }
    }

    void check_heads() const {
        if (!header_.find(hp_.key("attention.key_length")) && hp_.n_embd % hp_.n_head[0] != 0) {
            fail_at("attention.head_count",
                    text(hp_.n_embd, " channels cannot be shared by ", hp_.n_head[0], " heads"));
        }
        if (hp_.head_k != hp_.head_v) {
            fail_at("attention.value_length", text(hp_.head_v, " channels, but keys have ", hp_.head_k));
        }
        require_same("attention.key_length_swa", hp_.head_k);
        require_same("attention.value_length_swa", hp_.head_v);
    }

    void check_rope() const {
        if (arch_.has(whole_head_rope) && hp_.n_rot != hp_.head_k) {
            fail_at("rope.dimension_count", text(hp_.n_rot, " channels, but heads have ", hp_.head_k));
        }
        if (hp_.n_rot % 2 != 0) {
            fail_at("rope.dimension_count", text(hp_.n_rot, " channels of a head, expected an even number"));
        }
        require_same("rope.dimension_count_swa", hp_.n_rot);
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

    [[noreturn]] void fail_at(const char * suffix, const std::string & found) const {
        fail_key(header_, hp_.key(suffix), found);
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
        const Value * value = find_scalar(header_, hp_.key(suffix), ValueType::u32);
        if (value && value->as_unsigned() != 0) {
            fail_at(suffix, text(value->as_unsigned(), ", which this architecture has not"));
        }
    }

    // A size that may differ in other architectures.
    void require_same(const char * suffix, uint64_t expected) const {
        const Value * value = find_scalar(header_, hp_.key(suffix), ValueType::u32);
        if (value && value->as_unsigned() != expected) {
            fail_key(hp_.key(suffix), *value,
                     text(value->as_unsigned(), " channels, but this architecture has ", expected));
        }
    }

    const Header & header_;
    const HParams & hp_;
    const Architecture & arch_;
};

}  // namespace

void check_arch_hparams(const Header & header, const HParams & hp, const Architecture & arch) {
    ArchCheck(header, hp, arch).run();
}

}  // namespace orin::gguf
