#include "layout.h"

#include <string>
#include <vector>

namespace orin::gguf {

namespace {

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

    void run() const {
        require_all("", model_tensors());
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
                 text("missing, but every ", arch_.name, " model has it"), Advice::unsound);
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
            fail({Part::tensor, tensor->name, tensor->info_offset},
                 text("of shape ", shape_text(tensor->shape), ", expected ", shape_text(expected)), Advice::unsound);
        }
        return true;
    }

    const Header & header_;
    const HParams & hp_;
    const Architecture & arch_;
    const uint64_t n_vocab_;
};

}  // namespace

void check_layout(const Header & header, const HParams & hp, const Architecture & arch, uint64_t n_vocab) {
    LayoutCheck(header, hp, arch, n_vocab).run();
}

}  // namespace orin::gguf
