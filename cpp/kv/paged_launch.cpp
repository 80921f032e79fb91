#ifdef ORIN_CUDA
#include "paged_launch.h"

#include <algorithm>

#include "../../cuda/multiprocessors.h"
#include "../../cuda/paged_attention.h"
#include "../hooks/custom_op.h"
#include "cuda_paged_kv.h"
#include "device_ordinal.h"
#include "kv_pool.h"
#include "paged_graph.h"
#include "paged_node.h"

namespace orin {
namespace {

constexpr size_t counters_alignment = 256;

// How a launch is cut: tokens of a block, and parts of a context.
void cut(cuda::PagedAttentionParams & p, int32_t max_single_tokens, int32_t n_multiprocessors) {
    p.tokens_per_block = p.n_tokens <= max_single_tokens ? 1 : cuda::paged_attention_max_tokens_per_block(p);
    p.n_splits = cuda::paged_attention_splits(p, n_multiprocessors);
}

// PRECOND: the types of K and V are known. Sources of a graph that is not allocated yet have no data.
cuda::PagedAttentionParams params_of(const ggml_tensor & node, const PagedAttentionSetup & setup) {
    const PagedNodeParams params = paged_node_params(node);
    const ggml_tensor & q = *node.src[source_q];
    const ggml_tensor & k = *node.src[source_k];
    const ggml_tensor & v = *node.src[source_v];
    const ggml_tensor & tokens = *node.src[source_tokens];
    const ggml_tensor * sinks = node.src[source_sinks];
    const DeviceAttention & device = *setup.device;

    cuda::PagedAttentionParams p{};
    p.kv = cuda_paged_kv(k, v, *node.src[source_block_tables], setup.pool->pages().page_size());
    p.n_head = static_cast<int32_t>(q.ne[2]);
    p.scale = params.scale;
    p.softcap = params.softcap;
    p.window = params.window;
    p.sinks = sinks == nullptr ? nullptr : static_cast<const float *>(sinks->data);
    p.n_tokens = static_cast<int32_t>(q.ne[1]);
    p.rows = static_cast<const int32_t *>(tokens.data);
    p.positions = p.rows == nullptr ? nullptr : p.rows + p.n_tokens;
    p.q = static_cast<const float *>(q.data);
    p.q_token_stride = static_cast<int64_t>(q.nb[1] / sizeof(float));
    p.q_head_stride = static_cast<int64_t>(q.nb[2] / sizeof(float));
    p.out = {static_cast<cuda::RowFormat>(params.row_format), p.n_head * p.kv.head_dim_v, node.data};
    cut(p, device.max_single_tokens, device.n_multiprocessors);
    p.workspace = device.workspace;
    p.counters = device.counters;
    return p;
}

int launch(ggml_tensor * node, void * setup, void * stream) {
    const auto & own = *static_cast<const PagedAttentionSetup *>(setup);
    return cuda::paged_attention(params_of(*node, own), static_cast<cudaStream_t>(stream));
}

}  // namespace

void register_paged_attention_op() {
    register_custom_op({paged_attention_compute, paged_attention_is_supported, launch});
}

bool paged_attention_is_supported(const ggml_tensor * node) {
    const PagedAttentionSetup & setup = paged_node_setup(paged_node_params(*node));
    if (!setup.device || !cuda_kv_type(node->src[source_k]->type) || !cuda_kv_type(node->src[source_v]->type)) {
        return false;
    }
    const cuda::PagedAttentionParams p = params_of(*node, setup);
    return cuda::paged_attention_supports(p) &&
           cuda::paged_attention_workspace_bytes(p) <= setup.device->workspace_bytes &&
           cuda::paged_attention_counter_bytes(p) <= setup.device->counter_bytes;
}

bool attention_writes_rows(ggml_tensor & node, cuda::RowFormat format) {
    PagedNodeParams params = paged_node_params(node);
    if (node.op != GGML_OP_CUSTOM || node.type != GGML_TYPE_F32 || params.op.fun != paged_attention_compute) {
        return false;
    }
    ggml_tensor changed = node;
    params.row_format = static_cast<int32_t>(format);
    ggml_set_op_params(&changed, &params, sizeof params);
    if (!paged_attention_is_supported(&changed)) {
        return false;
    }
    const int64_t n_values = node.ne[0] * node.ne[1];
    changed.type = GGML_TYPE_I8;
    changed.ne[0] = static_cast<int64_t>(cuda::activation_row_bytes(format, static_cast<int32_t>(n_values)));
    changed.ne[1] = node.src[source_q]->ne[1];
    changed.ne[2] = 1;
    changed.nb[0] = 1;
    changed.nb[1] = static_cast<size_t>(changed.ne[0]);
    changed.nb[2] = changed.nb[3] = changed.nb[1] * static_cast<size_t>(changed.ne[1]);
    node = changed;
    return true;
}

DeviceAttention make_device_attention(ggml_backend_dev_t device, const DeviceAttentionLimits & limits) {
    DeviceAttention own{};
    own.device = device;
    own.max_single_tokens = limits.max_single_tokens;
    const cudaError_t error = cuda::count_multiprocessors(device_ordinal(device), own.n_multiprocessors);
    if (error != cudaSuccess) {
        throw std::runtime_error(std::string("the GPU does not tell its multiprocessors: ") +
                                 cudaGetErrorString(error));
    }
    size_t workspace_bytes = 0;
    size_t counter_bytes = 0;
    for (const DeviceAttentionLimits::Layer & layer : limits.layers) {
        if (!cuda_kv_type(limits.k_type) || !cuda_kv_type(limits.v_type)) {
            break;  // no node is supported
        }
        cuda::PagedAttentionParams p{};
        p.n_head = layer.n_head;
        p.kv.k_type = *cuda_kv_type(limits.k_type);
        p.kv.v_type = *cuda_kv_type(limits.v_type);
        p.kv.n_head_kv = layer.n_head_kv;
        p.kv.head_dim_k = layer.head_dim_k;
        p.kv.head_dim_v = layer.head_dim_v;
        p.kv.k_row_bytes = layer.n_head_kv * static_cast<int64_t>(cuda::kv_row_bytes(p.kv.k_type, layer.head_dim_k));
        p.kv.v_row_bytes = layer.n_head_kv * static_cast<int64_t>(cuda::kv_row_bytes(p.kv.v_type, layer.head_dim_v));
        for (p.n_tokens = 1; p.n_tokens <= limits.n_tokens; p.n_tokens++) {
            cut(p, own.max_single_tokens, own.n_multiprocessors);
            workspace_bytes = std::max(workspace_bytes, cuda::paged_attention_workspace_bytes(p));
            counter_bytes = std::max(counter_bytes, cuda::paged_attention_counter_bytes(p));
        }
    }
    workspace_bytes = (workspace_bytes + counters_alignment - 1) / counters_alignment * counters_alignment;
    const size_t n_bytes = workspace_bytes + counter_bytes + counters_alignment;
    own.memory.reset(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), n_bytes));
    if (!own.memory) {
        throw OutOfMemory("no memory for the " + std::to_string(n_bytes) +
                          " bytes that attention works in: lower --chunk-size (chunk_size in Python)");
    }
    ggml_backend_buffer_clear(own.memory.get(), 0);
    auto * base = static_cast<char *>(ggml_backend_buffer_get_base(own.memory.get()));
    own.workspace = reinterpret_cast<float *>(base);
    own.workspace_bytes = workspace_bytes;
    own.counter_bytes = counter_bytes;
    own.counters = reinterpret_cast<int32_t *>(base + workspace_bytes);
    return own;
}

}  // namespace orin
#endif
