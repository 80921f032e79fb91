// A ggml graph of one node, built, hooked and run the way a model graph is: what the hook probes share.
#pragma once

#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"

namespace orin {

class EngineHooks;

class ProbeGraph {
   public:
    // Throws std::runtime_error where there is no such device.
    ProbeGraph(bool gpu, int n_threads);

    ggml_context * context() const { return nodes_.get(); }

    // A tensor that is there before the graph is built. `usage` is that of its buffer.
    ggml_tensor * leaf(const std::vector<float> & values, ggml_backend_buffer_usage usage);

    // Completes the graph, lets the hooks see it, then allocates it. hooks: may be null
    void build(ggml_tensor * node, EngineHooks * hooks);

    // Runs the graph; inputs must have been set.
    void compute();

   private:
    ggml_backend_ptr backend_;
    ggml_context_ptr leaves_;
    ggml_context_ptr nodes_;
    std::vector<ggml_backend_buffer_ptr> buffers_;
    ggml_cgraph * graph_ = nullptr;
};

// Between float vectors and F32 or F16 tensors.
void upload(ggml_tensor * tensor, const std::vector<float> & values);
std::vector<float> download(const ggml_tensor * tensor);

}  // namespace orin
