#ifdef ORIN_CUDA
#include "gather_node.h"

#include <algorithm>
#include <cstring>

#include "../../cuda/kv_gather.h"
#include "../hooks/custom_op.h"
#include "../hooks/graph_edit.h"
#include "../hooks/include/orin_hooks.h"
#include "cuda_paged_kv.h"
#include "ggml-impl.h"
#include "kv_pool.h"
#include "paged_graph.h"
#include "paged_node.h"
#include "step_input.h"

namespace orin {
namespace {

// Sources of a node that gathers: K and V are a layer's cells, [head_dim, n_cells, n_head_kv] as attention sees them.
enum GatherSource { gather_k, gather_v, gather_block_tables, gather_segments };
// Of a node that makes a mask, whose window is behind ggml's parameters.
enum MaskSource { mask_tokens, mask_segments };

struct MaskNodeParams {
    ggml_custom_op_params op;
    int32_t window;
};

void gather_on_cpu(ggml_tensor *, int, int, void *) {
    GGML_ABORT("pages are gathered on a GPU only");
}

void mask_on_cpu(ggml_tensor *, int, int, void *) {
    GGML_ABORT("the mask over gathered pages is made on a GPU only");
}

cuda::KvSegments segments_of(const ggml_tensor & tensor) {
    return {static_cast<const cuda::KvSegment *>(tensor.data), static_cast<int32_t>(tensor.ne[1])};
}

// Heads one after another, each with all its positions.
cuda::GatheredRows rows_at(char * data, int64_t head_dim, int64_t n_positions) {
    return {data, head_dim, head_dim * n_positions};
}

// PRECOND: the types of K and V are known.
cuda::KvGatherParams gather_params(const ggml_tensor & node, const PagedAttentionSetup & setup) {
    const ggml_tensor & k = *node.src[gather_k];
    const ggml_tensor & v = *node.src[gather_v];
    cuda::KvGatherParams p{};
    p.kv = cuda_paged_kv(k, v, *node.src[gather_block_tables], setup.pool->pages().page_size());
    p.from = segments_of(*node.src[gather_segments]);
    p.n_positions = static_cast<int32_t>(node.ne[1]);
    char * data = static_cast<char *>(node.data);
    p.k = rows_at(data, k.ne[0], node.ne[1]);
    p.v = rows_at(data + node.ne[1] * k.ne[0] * k.ne[2] * static_cast<int64_t>(sizeof(uint16_t)), v.ne[0], node.ne[1]);
    return p;
}

bool can_gather(const ggml_tensor * node) {
    const auto & setup = *static_cast<const PagedAttentionSetup *>(paged_node_params(*node).op.userdata);
    return setup.device && cuda_kv_type(node->src[gather_k]->type) && cuda_kv_type(node->src[gather_v]->type) &&
           cuda::can_read_kv(gather_params(*node, setup).kv);
}

int launch_gather(ggml_tensor * node, void * setup, void * stream) {
    return cuda::kv_gather(gather_params(*node, *static_cast<const PagedAttentionSetup *>(setup)),
                           static_cast<cudaStream_t>(stream));
}

bool can_mask(const ggml_tensor *) {
    return true;
}

int launch_mask(ggml_tensor * node, void *, void * stream) {
    MaskNodeParams params;
    std::memcpy(&params, node->op_params, sizeof params);
    const auto * rows = static_cast<const int32_t *>(node->src[mask_tokens]->data);
    cuda::KvMaskParams p{};
    p.from = segments_of(*node->src[mask_segments]);
    p.n_positions = static_cast<int32_t>(node->ne[0]);
    p.n_tokens = static_cast<int32_t>(node->ne[1]);
    p.rows = rows;
    p.positions = rows + p.n_tokens;
    p.window = params.window;
    p.halves = node->data;
    return cuda::kv_mask(p, static_cast<cudaStream_t>(stream));
}

}  // namespace

void register_gather_ops() {
    register_custom_op({gather_on_cpu, can_gather, launch_gather});
    register_custom_op({mask_on_cpu, can_mask, launch_mask});
}

bool Gathering::serve(ggml_tensor * node, int32_t window) {
    ggml_tensor * k = node->src[source_k];
    ggml_tensor * v = node->src[source_v];
    const int64_t k_values = k->ne[0] * k->ne[2];  // of a position
    const int64_t v_values = v->ne[0] * v->ne[2];
    ggml_tensor * sources[] = {k, v, input_.block_tables, input_.segments};
    ggml_tensor * pieces = ggml_custom_4d(context_, GGML_TYPE_F16, k_values + v_values, n_positions_, 1, 1, sources, 4,
                                          gather_on_cpu, 1, &setup_);
    constexpr size_t half = sizeof(uint16_t);
    const auto view = [&](const ggml_tensor & cells, int64_t first_half) {
        const size_t row_bytes = static_cast<size_t>(cells.ne[0]) * half;
        return ggml_view_3d(context_, pieces, cells.ne[0], n_positions_, cells.ne[2], row_bytes,
                            row_bytes * static_cast<size_t>(n_positions_), static_cast<size_t>(first_half) * half);
    };
    ggml_tensor * gathered_k = view(*k, 0);
    ggml_tensor * gathered_v = view(*v, k_values * n_positions_);
    ggml_tensor * mask = mask_for(window);

    ggml_tensor trial = *node;
    trial.src[source_k] = gathered_k;
    trial.src[source_v] = gathered_v;
    trial.src[source_mask] = mask;
    if (!orin_cuda_custom_supports(pieces) || !ggml_backend_dev_supports_op(setup_.device->device, &trial)) {
        return false;
    }
    for (ggml_tensor * tensor : {gathered_k, gathered_v, mask}) {
        if (node_index(graph_, tensor) < 0) {
            insert_node(graph_, tensor, node_index(graph_, node));
        }
    }
    ggml_tensor * stock_mask = node->src[source_mask];
    set_source(graph_, node, source_k, gathered_k);
    set_source(graph_, node, source_v, gathered_v);
    set_source(graph_, node, source_mask, mask);
    if (n_uses(graph_, stock_mask) == 0) {
        remove_leaf(graph_, stock_mask);
    }
    return true;
}

ggml_tensor * Gathering::mask_for(int32_t window) {
    ggml_tensor *& mask = masks_[window];
    if (mask == nullptr) {
        ggml_tensor * sources[] = {input_.tokens, input_.segments};
        mask = ggml_custom_4d(context_, GGML_TYPE_F16, n_positions_, input_.tokens->ne[0], 1, 1, sources, 2,
                              mask_on_cpu, 1, &setup_);
        MaskNodeParams params;
        std::memcpy(&params, mask->op_params, sizeof params);
        params.window = window;
        ggml_set_op_params(mask, &params, sizeof params);
    }
    return mask;
}

}  // namespace orin
#endif
