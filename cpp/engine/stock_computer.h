// Steps over llama.cpp's own memory, of any kind: one sequence in one context. The next one keeps what both begin with.
#pragma once

#include "../scheduler/scheduler.h"
#include "context.h"
#include "logits_computer.h"

namespace orin {

class StockComputer : public LogitsComputer {
   public:
    // `scheduler` admits one request at a time. Throws EngineError.
    StockComputer(const Scheduler & scheduler, Model & model, const EngineParams & params, EngineHooks & hooks,
                  const StopCheck & stop);

    void compute(const StepBatch & batch) override;
    // PRECOND for a step of several outputs: n_found() is 0, and no step before it was lost
    const float * logits(size_t output) const override;
    int32_t n_found() const override { return n_found_; }
    void forget() override { truncate(0); }

   private:
    int32_t n_tokens() const { return static_cast<int32_t>(tokens_.size()); }
    void extend(const std::vector<int32_t> & known, int32_t end, const StepBatch & batch);
    void truncate(int32_t n_keep);

    const Scheduler & scheduler_;
    const int32_t chunk_size_;
    ggml_backend_dev_t const gpu_;  // or null
    ContextPtr context_;
    std::vector<int32_t> tokens_;  // whose keys and values (or state) are there, in order
    int32_t n_found_ = 0;
    RowArrays rows_;
    std::vector<int32_t> output_rows_;  // of rows_
};

}  // namespace orin
