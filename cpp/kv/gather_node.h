// A prompt's attention on a GPU: pages become one piece of f16, over which llama.cpp's flash attention computes.
#pragma once

#include <cstdint>
#include <map>

#include "ggml.h"

struct ggml_cgraph;

namespace orin {

class StepInput;
struct PagedAttentionSetup;

// Lets CUDA gather; any number of times.
void register_gather_ops();

// For the graph of one step.
class Gathering {
   public:
    // input: with segments. Both must outlive the graph.
    Gathering(ggml_context * context, ggml_cgraph & graph, PagedAttentionSetup & setup, const StepInput & input,
              int64_t n_positions)
        : context_(context), graph_(graph), setup_(setup), input_(input), n_positions_(n_positions) {}

    // Lets a flash attention node over the cells of a layer read what is gathered from the pages, under a mask of our
    // own. False, and nothing is changed, where the GPU does not compute that.
    bool serve(ggml_tensor * node, int32_t window);

   private:
    ggml_tensor * mask_for(int32_t window);

    ggml_context * context_;
    ggml_cgraph & graph_;
    PagedAttentionSetup & setup_;
    const StepInput & input_;
    const int64_t n_positions_;
    std::map<int32_t, ggml_tensor *> masks_;  // by window
};

}  // namespace orin
