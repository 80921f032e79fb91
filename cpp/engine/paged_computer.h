// Steps over pages of a pool. One context computes steps with prompt tokens, another those without, so that neither has
// to build its graph anew when they take turns.
#pragma once

#include "../kv/kv_pool.h"
#include "../kv/paged_hook.h"
#include "context.h"
#include "logits_computer.h"

namespace orin {

class PagedComputer : public LogitsComputer {
   public:
    // `pages` is the scheduler's. Nothing can be computed before make_contexts(). has_idle_lanes: max_batch is the
    // number of a sequence in llama.cpp whose tokens stand for nobody.
    PagedComputer(PagedKv & pages, const EngineParams & params, int32_t n_vocab, bool has_idle_lanes = false);

    // For EngineHooks; contexts are made with these.
    PagedHook & hook() { return hook_; }
    // False where the model's memory or attention is of a kind that pages do not serve: hook().refusal() says why.
    // Throws EngineError.
    virtual bool make_contexts(Model & model, EngineHooks & hooks, const StopCheck & stop);

    void compute(const StepBatch & batch) override;
    const float * logits(size_t output) const override;
    void forget() override;
    KvUse kv_use() const override { return {pool_.page_bytes(), pool_.committed_bytes()}; }
    bool wants_trim() const override { return pool_.is_trim_worthwhile(); }
    void trim() override { pool_.trim(); }
    KvPool & pool() { return pool_; }

   protected:
    // Prompt tokens or not: the context that computes them.
    llama_context * context_for(const StepBatch & batch) const;
    // Memory for the pages that were taken. Throws KvFull.
    void grow();
    void take_rows(const StepBatch & batch);
    void compute_rows_in(llama_context * context);

    const EngineParams params_;
    const bool has_idle_lanes_;
    KvPool pool_;
    PagedHook hook_;
    ContextPtr prefill_;
    ContextPtr decode_;
    RowArrays rows_;

   private:
    llama_context * last_ = nullptr;  // has the logits
    std::vector<int32_t> output_rows_;
};

}  // namespace orin
