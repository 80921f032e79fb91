// All between a layer's projections and its attention as one node: Q and K are normalised and turned, K and V go into
// their cells. For GPUs alone; cuda/rope_store.h has the kernel.
#pragma once

#include <cstdint>

#include "rope_store_match.h"

struct ggml_context;

namespace orin {

// The node, which is Q as attention reads it; K and V go to their cells as a side effect. table: [n_positions, n_dims /
// 2, (cos, sin)] on the device
ggml_tensor * rope_store_node(ggml_context * context, const RopeStoreSite & site, const PagedLayer & layer,
                              ggml_tensor * table);

// Puts the node in the place of what it computes. Matrices that nobody reads any more leave the graph; the cells that V
// had for its own stay an input, which upstream sets.
void replace_by_rope_store(ggml_cgraph & graph, const RopeStoreSite & site, ggml_tensor * node);

bool is_rope_store(const ggml_tensor & node);

// Lets the launch of such a node have the first `bytes` of these weights brought into the L2 cache; none where they are
// not on a GPU.
void prefetch_in_rope_store(ggml_tensor & node, const ggml_tensor & weights, int64_t bytes);

#ifdef ORIN_CUDA
// Makes the CUDA backend run these nodes.
void register_rope_store_op();
#endif

}  // namespace orin
