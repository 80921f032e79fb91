// RoPE on a GPU for one engine: its tables there, and the layers of its graphs that use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../kv/paged_layer.h"
#include "../rope/device_rope_table.h"

struct ggml_cgraph;
struct ggml_context;

namespace orin {

// Of the latest graph.
struct RopeStoreReport {
    int32_t n_layers = 0;  // that turn and store in one node
    int32_t n_stock = 0;   // on a GPU, that keep llama.cpp's nodes
    std::string reason;    // why the first of these does
};

// Must outlive the graphs it changed: their nodes read its tables.
class RopeStoreHook {
   public:
    // Tables cover positions below this.
    explicit RopeStoreHook(int32_t n_positions);

    // Of layers whose cells are on a GPU. Before other hooks change the graph. Several contexts may call at once.
    void graph_built(ggml_context * context, ggml_cgraph & graph, const std::vector<PagedLayer> & layers);

    RopeStoreReport report() const;
    size_t table_bytes() const;
    // Heads that had a position outside of their table, in all steps that are done.
    uint64_t n_outside() const;

   private:
    // Why the layer keeps its nodes, or "".
    std::string serve(ggml_context * context, ggml_cgraph & graph, const PagedLayer & layer);
    // Null where the node's parameters have no table. Throws std::bad_alloc.
    ggml_tensor * table_for(const ggml_tensor & rope, ggml_backend_buffer_type_t memory);
    const std::vector<float> & factors_in(const ggml_tensor & weights);

    const int32_t n_positions_;
    mutable std::mutex lock_;
    std::vector<std::unique_ptr<DeviceRopeTable>> tables_;
    std::unordered_map<const void *, std::vector<float>> factors_;  // by where they lie, read once
    RopeStoreReport report_;
};

}  // namespace orin
