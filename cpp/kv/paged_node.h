// A paged attention node: how the graph tells it what to compute.
#pragma once

#include <cstdint>
#include <cstring>

#include "ggml-impl.h"

namespace orin {

struct PagedAttentionSetup;

namespace cuda {
enum class RowFormat : int32_t;  // cuda/activation_rows.h
}

// Its parameters: what ggml wants of a custom op, then our own. They fit into the node's 64 bytes.
struct PagedNodeParams {
    ggml_custom_op_params op;
    float scale;
    float softcap;
    int32_t window;
    int32_t row_format;  // of the result on a GPU: cuda::RowFormat
};
static_assert(sizeof(PagedNodeParams) <= GGML_MAX_OP_PARAMS);

inline PagedNodeParams paged_node_params(const ggml_tensor & node) {
    PagedNodeParams params;
    std::memcpy(&params, node.op_params, sizeof params);
    return params;
}

inline PagedAttentionSetup & paged_node_setup(const PagedNodeParams & params) {
    return *static_cast<PagedAttentionSetup *>(params.op.userdata);
}

// Places of the sources, as flash attention has them; the mask makes room for what replaces it.
enum PagedSource {
    source_q,
    source_k,
    source_v,
    source_mask,
    source_tokens = source_mask,  // [2, n_tokens]: rows of the block tables, then positions; below 0: no sequence
    source_sinks,
    source_block_tables,  // [rows, max_pages]
};

// Lets a node that paged attention has on a GPU write its result as rows of activations (cuda/activation_rows.h): int8
// [bytes of a row, n_tokens] with the values of all heads, n_head · head_dim. False, and nothing is changed, where that
// is not supported, and for any other node. PRECOND: whoever reads the node as what it was has been taken away from it.
bool attention_writes_rows(ggml_tensor & node, cuda::RowFormat format);

// Computes a node on the CPU, and is the key to its launcher on a GPU.
void paged_attention_compute(ggml_tensor * node, int ith, int nth, void * setup);

}  // namespace orin
