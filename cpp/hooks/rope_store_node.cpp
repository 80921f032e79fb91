#include "rope_store_node.h"

#include <algorithm>
#include <cstring>

#include "ggml-backend.h"
#include "ggml-impl.h"
#include "graph_edit.h"

#ifdef ORIN_CUDA
#include "../../cuda/rope_store.h"
#include "../kv/cuda_paged_kv.h"
#include "../rope/device_rope_table.h"
#include "custom_op.h"
#endif

namespace orin {
namespace {

// The parameters of our node: what ggml wants of a custom op, then our own. They fit into the node's 64 bytes.
struct NodeParams {
    ggml_custom_op_params op;
    float q_scale;
    int32_t k_hadamard;
    int32_t v_hadamard;
    bool neighbours;  // which channels turn together
    float q_eps;
    float k_eps;
    int32_t prefetched_bytes;  // from here on, of weights, which stay where they are
    const void * prefetched;
};
static_assert(sizeof(NodeParams) <= GGML_MAX_OP_PARAMS);

enum Source {
    source_q,
    source_k,
    source_v,
    source_positions,
    source_cells,
    source_table,
    source_k_cells,
    source_v_cells,
    n_required_sources,
    source_q_norm = n_required_sources,  // null: heads are not normalised
    source_k_norm,
    n_sources,
};
static_assert(n_sources <= GGML_MAX_SRC);

void compute_on_cpu(ggml_tensor * node, int, int, void *) {
    GGML_ABORT("%s: RoPE with the store of K and V is made for GPUs alone, and ran on the CPU", node->name);
}

NodeParams params_of(const ggml_tensor & node) {
    NodeParams params;
    std::memcpy(&params, node.op_params, sizeof params);
    return params;
}

constexpr int64_t max_prefetch = 1 << 30;

bool is_on_gpu(const ggml_tensor & weights) {
    if (weights.data == nullptr || weights.buffer == nullptr) {
        return false;
    }
    ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(weights.buffer));
    return device != nullptr && ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU &&
           !ggml_backend_buffer_is_host(weights.buffer);
}

}  // namespace

ggml_tensor * rope_store_node(ggml_context * context, const RopeStoreSite & site, const PagedLayer & layer,
                              ggml_tensor * table) {
    ggml_tensor * sources[n_required_sources];
    sources[source_q] = site.q;
    sources[source_k] = site.k;
    sources[source_v] = site.v;
    sources[source_positions] = site.positions;
    sources[source_cells] = site.cells;
    sources[source_table] = table;
    sources[source_k_cells] = const_cast<ggml_tensor *>(layer.k);
    sources[source_v_cells] = const_cast<ggml_tensor *>(layer.v);
    const ggml_tensor & out = *site.q_ready;
    ggml_tensor * node = ggml_custom_4d(context, GGML_TYPE_F32, out.ne[0], out.ne[1], out.ne[2], out.ne[3], sources,
                                        n_required_sources, compute_on_cpu, 1, nullptr);
    node->src[source_q_norm] = site.q_norm.weight;
    node->src[source_k_norm] = site.k_norm.weight;
    NodeParams params{};
    std::memcpy(&params.op, node->op_params, sizeof params.op);
    params.q_scale = site.q_scale;
    params.k_hadamard = site.k_hadamard;
    params.v_hadamard = site.v_hadamard;
    params.neighbours = ggml_get_op_params_i32(site.rope, 2) == GGML_ROPE_TYPE_NORMAL;
    params.q_eps = site.q_norm.eps;
    params.k_eps = site.k_norm.eps;
    ggml_set_op_params(node, &params, sizeof params);
    ggml_format_name(node, "rope_store %s", layer.k->name);
    return node;
}

void replace_by_rope_store(ggml_cgraph & graph, const RopeStoreSite & site, ggml_tensor * node) {
    insert_node(graph, node, site.index);
    replace_uses(graph, site.q_ready, node);
    for (ggml_tensor * replaced : site.replaced) {
        if (node_index(graph, replaced) >= 0) {  // else it was a view of one before it
            remove_node(graph, replaced);
        }
    }
    for (ggml_tensor * matrix : site.rotations) {
        if (is_leaf(graph, matrix) && n_uses(graph, matrix) == 0) {
            remove_leaf(graph, matrix);
        }
    }
}

bool is_rope_store(const ggml_tensor & node) {
    return node.op == GGML_OP_CUSTOM && params_of(node).op.fun == compute_on_cpu;
}

void prefetch_in_rope_store(ggml_tensor & node, const ggml_tensor & weights, int64_t bytes) {
    NodeParams params = params_of(node);
    params.prefetched = weights.data;
    params.prefetched_bytes =
        is_on_gpu(weights) ? static_cast<int32_t>(std::min({bytes, int64_t(ggml_nbytes(&weights)), max_prefetch})) : 0;
    ggml_set_op_params(&node, &params, sizeof params);
}

#ifdef ORIN_CUDA
namespace {

cuda::HeadRows rows(const ggml_tensor & t, const ggml_tensor * norm, float eps) {
    return {static_cast<const float *>(t.data), static_cast<int64_t>(t.nb[2] / sizeof(float)),
            static_cast<int64_t>(t.nb[1] / sizeof(float)),
            norm == nullptr ? nullptr : static_cast<const float *>(norm->data), eps};
}

// PRECOND: the types of the cells are known.
cuda::RopeStoreParams kernel_params(const ggml_tensor & node) {
    const NodeParams own = params_of(node);
    const auto source = [&](Source slot) -> const ggml_tensor & { return *node.src[slot]; };
    const ggml_tensor & table = source(source_table);
    cuda::RopeStoreParams p{};
    p.n_tokens = static_cast<int32_t>(node.ne[2]);
    p.n_head = static_cast<int32_t>(node.ne[1]);
    p.n_head_kv = static_cast<int32_t>(source(source_k).ne[1]);
    p.head_dim_k = static_cast<int32_t>(node.ne[0]);
    p.head_dim_v = static_cast<int32_t>(source(source_v).ne[0]);
    p.q = rows(source(source_q), node.src[source_q_norm], own.q_eps);
    p.k = rows(source(source_k), node.src[source_k_norm], own.k_eps);
    p.v = rows(source(source_v), nullptr, 0.0f);
    p.q_out = static_cast<float *>(node.data);
    p.q_scale = own.q_scale;
    p.positions = static_cast<const int32_t *>(source(source_positions).data);
    p.table = static_cast<const float2 *>(table.data);
    p.n_positions = DeviceRopeTable::n_positions(table);
    p.n_outside = reinterpret_cast<uint32_t *>(static_cast<char *>(table.data) + p.n_positions * table.nb[1]);
    p.n_dims = static_cast<int32_t>(table.ne[0]);
    p.pairs = own.neighbours ? cuda::RopePairs::neighbours : cuda::RopePairs::halves;
    p.k_hadamard = own.k_hadamard;
    p.v_hadamard = own.v_hadamard;
    p.cells = static_cast<const int64_t *>(source(source_cells).data);
    p.k_type = *cuda_kv_type(source(source_k_cells).type);
    p.v_type = *cuda_kv_type(source(source_v_cells).type);
    p.k_cells = source(source_k_cells).data;
    p.v_cells = source(source_v_cells).data;
    p.k_row_bytes = static_cast<int64_t>(source(source_k_cells).nb[1]);
    p.v_row_bytes = static_cast<int64_t>(source(source_v_cells).nb[1]);
    p.prefetch.ranges[0] = {own.prefetched, own.prefetched_bytes};
    return p;
}

bool supports(const ggml_tensor * node) {
    const auto fits = [](const ggml_tensor & x, const ggml_tensor & cells) {
        return cuda_kv_type(cells.type) && cells.ne[0] == x.ne[0] * x.ne[1];
    };
    return node->src[source_k]->ne[0] == node->ne[0] && node->src[source_k]->ne[1] == node->src[source_v]->ne[1] &&
           fits(*node->src[source_k], *node->src[source_k_cells]) &&
           fits(*node->src[source_v], *node->src[source_v_cells]) && cuda::can_rope_store(kernel_params(*node));
}

int launch(ggml_tensor * node, void *, void * stream) {
    return cuda::rope_store(kernel_params(*node), static_cast<cudaStream_t>(stream));
}

}  // namespace

void register_rope_store_op() {
    register_custom_op({compute_on_cpu, supports, launch});
}
#endif

}  // namespace orin
