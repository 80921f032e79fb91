// Computes the steps that a scheduler plans: where keys and values are kept, and which context of llama.cpp is asked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../scheduler/step_batch.h"

namespace orin {

// The memory of a paged KV cache.
struct KvUse {
    int64_t page_bytes = 0;  // 0: nothing is paged
    int64_t committed_bytes = 0;
};

// Of the last step.
struct StepTimes {
    double upload_ms = 0.0;   // bringing the rows into llama.cpp's form, and copies on write
    double compute_ms = 0.0;  // in llama.cpp
};

class Computer {
   public:
    virtual ~Computer() = default;

    // Throws EngineError, Interrupted: the step has failed then.
    virtual void compute(const StepBatch & batch) = 0;
    // Of the batch's output of this index: [n_vocab], valid until the next step.
    virtual const float * logits(size_t output) const = 0;
    // Tokens of the last step that were not computed, for they were there already.
    virtual int32_t n_found() const { return 0; }
    // All that could be found again and is not in use is given up.
    virtual void forget() = 0;
    virtual KvUse kv_use() const { return {}; }
    // Memory that is not needed is given back, where that is much.
    virtual void trim() {}

    const StepTimes & times() const { return times_; }
    // Graphs that had to be built since the start, all contexts together.
    int64_t n_graphs_built() const { return n_graphs_built_; }

   protected:
    StepTimes times_;
    int64_t n_graphs_built_ = 0;
};

}  // namespace orin
