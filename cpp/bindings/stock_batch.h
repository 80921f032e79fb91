// Sequences that llama.cpp computes together without any hook: what batches are compared with.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "../engine/context.h"

namespace orin {

class StockBatch {
   public:
    // A context of n_ctx tokens for each of n_seq sequences, with KV buffers of their own, as llama-server makes it;
    // flash attention is llama.cpp's choice. Throws EngineError where it cannot be made.
    StockBatch(std::shared_ptr<Model> model, int32_t n_ctx, int32_t n_seq, int32_t chunk_size, int32_t threads,
               KvTypes kv_types);

    // A prompt of n_prompt tokens for each sequence, packed into chunks, then steps of one token of each until all
    // have n_tokens; which tokens is no matter. Nothing is sampled. Milliseconds from the beginning to the end of the
    // prompts, which give the first tokens, and of every step: n_tokens values.
    std::vector<double> run(int32_t n_prompt, int32_t n_tokens);

   private:
    void step();

    std::shared_ptr<Model> model_;
    int32_t n_seq_;
    int32_t chunk_size_;
    ContextPtr context_;
    RowArrays rows_;
};

// Adds the class to _native.testing.
void bind_stock_batch(pybind11::module_ & m);

}  // namespace orin
