// Nodes that ggml's CPU backend computes for the emulated GPU.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "ggml-cpp.h"
#include "ggml.h"

namespace emulated_gpu {

// Neighbours in a graph, as they are when they are added: what the host changes in them later is not seen, as it is not
// by kernels that were launched.
class StockNodes {
   public:
    void add(const ggml_tensor & node);
    bool is_empty() const { return nodes_.empty(); }
    // No more are added; it can be run any number of times, by one thread at a time.
    void finish();
    void run();

   private:
    ggml_tensor * copy_of(const ggml_tensor * tensor);

    std::deque<ggml_tensor> copies_;
    std::unordered_map<const ggml_tensor *, ggml_tensor *> by_original_;
    std::vector<ggml_tensor *> nodes_;
    ggml_context_ptr context_;
    ggml_cgraph * graph_ = nullptr;
};

}  // namespace emulated_gpu
