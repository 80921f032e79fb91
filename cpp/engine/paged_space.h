// A sequence in pages of a pool: prefixes of earlier ones are found again, and memory follows use. One context computes
// prompts, another single tokens, so that neither has to build its graph anew when they take turns.
#pragma once

#include "../kv/kv_pool.h"
#include "../kv/paged_hook.h"
#include "kv_space.h"

namespace orin {

struct PagedSpaceConfig {
    int32_t n_ctx = 0;
    int32_t chunk_size = 512;
    int32_t page_size = 16;
    int32_t n_threads = 1;
    bool prefix_cache = true;
    bool attention = true;
};

class PagedSpace : public KvSpace {
   public:
    explicit PagedSpace(const PagedSpaceConfig & config);

    // For EngineHooks; contexts are made with these, and then given.
    PagedHook & hook() { return hook_; }
    // Throws EngineError where llama.cpp keeps this model's state otherwise than in a plain KV cache.
    void make_contexts(const MakeContext & make_context);

    llama_context * context_for(int32_t n_tokens) override;
    void reuse(const std::vector<int32_t> & prompt) override;
    void forget() override;
    void place(const int32_t * tokens, int32_t n_tokens) override;
    void commit(const int32_t * tokens, int32_t n_tokens) override;
    void undo() override;
    const KvPool * pool() const override { return &pool_; }

   private:
    void truncate(int32_t n_keep);

    const PagedSpaceConfig config_;
    PagedKv pages_;
    KvPool pool_;
    PagedHook hook_;
    SequenceId sequence_;
    ContextPtr prefill_;
    ContextPtr decode_;
};

}  // namespace orin
