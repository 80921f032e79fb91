// llama.cpp's own memory, of any kind, behind one context.
#pragma once

#include "kv_space.h"

namespace orin {

class StockSpace : public KvSpace {
   public:
    StockSpace(const MakeContext & make_context, int32_t chunk_size) : context_(make_context(chunk_size)) {}

    llama_context * context_for(int32_t) override { return context_.get(); }
    void reuse(const std::vector<int32_t> & prompt) override { truncate(common_prefix(prompt)); }
    void forget() override { truncate(0); }
    void place(const int32_t *, int32_t) override {}
    void commit(const int32_t * tokens, int32_t n_tokens) override {
        tokens_.insert(tokens_.end(), tokens, tokens + n_tokens);
    }
    void undo() override { fit_cache(); }

   private:
    void truncate(int32_t n_keep);
    void fit_cache();

    ContextPtr context_;
};

}  // namespace orin
