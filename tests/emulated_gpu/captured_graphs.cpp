#include "captured_graphs.h"

#include <cstring>

#include "device.h"

namespace emulated_gpu {
namespace {

NodeProperties properties_of(const ggml_tensor & node) {
    NodeProperties result;
    std::memset(&result, 0, sizeof(result));
    std::memcpy(&result.node, &node, sizeof(node));
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (const ggml_tensor * source = node.src[i]) {
            result.source_data[i] = source->data;
            std::memcpy(result.source_ne[i], source->ne, sizeof(source->ne));
            std::memcpy(result.source_nb[i], source->nb, sizeof(source->nb));
        }
    }
    return result;
}

}  // namespace

// A graph with the number of the one before is not looked at: who changes it must change its number.
bool CapturedGraph::has_changed(const ggml_cgraph & graph) {
    if (graph.uid != 0 && graph.uid == uid_) {
        return false;
    }
    uid_ = graph.uid;
    const auto n_nodes = static_cast<size_t>(graph.n_nodes);
    bool changed = properties_.size() != n_nodes;
    properties_.resize(n_nodes);
    for (size_t i = 0; i < n_nodes; i++) {
        const NodeProperties now = properties_of(*graph.nodes[i]);
        if (changed || std::memcmp(&properties_[i], &now, sizeof(now)) != 0) {
            properties_[i] = now;
            changed = true;
        }
    }
    return changed;
}

CapturedGraph::Run CapturedGraph::next_run(const ggml_cgraph & graph) {
    if (has_changed(graph)) {
        is_warm_ = false;
        return Run::eagerly;
    }
    const bool is_new = !is_warm_ || executable_ == nullptr;
    is_warm_ = true;
    return is_new ? Run::captured_now : Run::replayed;
}

void CapturedGraph::keep(cudaGraph_t graph) {
    drop();
    check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

void CapturedGraph::replay(cudaStream_t stream) const {
    check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
}

void CapturedGraph::drop() {
    if (executable_ != nullptr) {
        cudaGraphExecDestroy(executable_);
        executable_ = nullptr;
    }
}

}  // namespace emulated_gpu
