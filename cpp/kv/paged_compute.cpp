// The node on the CPU.
#include "../attention/paged_attention.h"
#include "kv_pool.h"
#include "paged_graph.h"
#include "paged_node.h"

namespace orin {
namespace {

attention::KvType kv_type(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16:
            return attention::KvType::f16;
        case GGML_TYPE_BF16:
            return attention::KvType::bf16;
        case GGML_TYPE_Q8_0:
            return attention::KvType::q8_0;
        default:
            return attention::KvType::q4_0;
    }
}

}  // namespace

void paged_attention_compute(ggml_tensor * node, int ith, int nth, void * setup) {
    const auto & own = *static_cast<const PagedAttentionSetup *>(setup);
    const PagedNodeParams params = paged_node_params(*node);
    const ggml_tensor & q = *node->src[source_q];
    const ggml_tensor & k = *node->src[source_k];
    const ggml_tensor & v = *node->src[source_v];
    const ggml_tensor & tokens = *node->src[source_tokens];
    const ggml_tensor & block_tables = *node->src[source_block_tables];
    const ggml_tensor * sinks = node->src[source_sinks];

    attention::PagedAttention a;
    a.n_head = static_cast<int32_t>(q.ne[2]);
    a.n_head_kv = static_cast<int32_t>(k.ne[2]);
    a.head_dim_k = static_cast<int32_t>(k.ne[0]);
    a.head_dim_v = static_cast<int32_t>(v.ne[0]);
    a.scale = params.scale;
    a.softcap = params.softcap;
    a.window = params.window;
    a.sinks = sinks == nullptr ? nullptr : static_cast<const float *>(sinks->data);
    a.k_type = kv_type(k.type);
    a.v_type = kv_type(v.type);
    a.k = k.data;
    a.v = v.data;
    a.k_row_bytes = k.nb[1];
    a.v_row_bytes = v.nb[1];
    a.page_size = own.pool->pages().page_size();
    a.block_tables = static_cast<const int32_t *>(block_tables.data);
    a.max_pages = static_cast<int32_t>(block_tables.ne[0]);
    a.n_tokens = static_cast<int32_t>(q.ne[1]);
    a.rows = static_cast<const int32_t *>(tokens.data);
    a.positions = a.rows + a.n_tokens;
    a.q = static_cast<const float *>(q.data);
    a.q_token_stride = static_cast<int64_t>(q.nb[1] / sizeof(float));
    a.q_head_stride = static_cast<int64_t>(q.nb[2] / sizeof(float));
    a.out = static_cast<float *>(node->data);
    attention::run(a, *own.workspace, ith, nth);
}

}  // namespace orin
