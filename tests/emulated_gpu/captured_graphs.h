// Which graphs are captured and replayed, as ggml's CUDA backend decides it: a graph whose nodes are as they were the
// time before is captured, and replayed until one of them changes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ggml-impl.h"

namespace emulated_gpu {

// What the captured work of a node depends on.
struct NodeProperties {
    ggml_tensor node;
    void * source_data[GGML_MAX_SRC];
    int64_t source_ne[GGML_MAX_SRC][GGML_MAX_DIMS];
    size_t source_nb[GGML_MAX_SRC][GGML_MAX_DIMS];
};

class CapturedGraph {
   public:
    enum class Run { eagerly, captured_now, replayed };

    ~CapturedGraph() { drop(); }

    // How the graph is to be run this time.
    Run next_run(const ggml_cgraph & graph);
    // What was recorded this time takes the place of what was before.
    void keep(cudaGraph_t graph);
    void replay(cudaStream_t stream) const;

   private:
    bool has_changed(const ggml_cgraph & graph);
    void drop();

    uint64_t uid_ = 0;
    std::vector<NodeProperties> properties_;
    bool is_warm_ = false;
    cudaGraphExec_t executable_ = nullptr;
};

// Of a backend, by the first node.
using CapturedGraphs = std::unordered_map<const ggml_tensor *, CapturedGraph>;

}  // namespace emulated_gpu
