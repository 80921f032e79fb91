// Causal attention of a step's query tokens over K and V in pages, on the CPU. Nothing here knows ggml.
//
// For a query token at position p of a sequence, and each of its heads:
//
//   out = Σ weight(t) · V(t) / Σ weight(t),  t = 0 … p, or p - window + 1 … p
//   weight(t) = e^score(t),  score(t) = scale · q·K(t), or softcap · tanh(scale · q·K(t) / softcap)
//
// With a sink, e^sink is added to the sum of the weights. Position t of a sequence lies in the cell
// page · page_size + t % page_size, page = its block table's entry t / page_size. Only cells of attended positions are
// read. K and V are read as they are stored; everything else is computed in float32, or as exactly (digits.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace orin::attention {

class Workspace;

enum class KvType : int32_t { f16, bf16, q8_0, q4_0 };

// PRECOND: n_head % n_head_kv == 0; head sizes are multiples of 16, of 32 where K or V is quantized; page_size is a
// power of two; window >= 0; positions >= 0; the block tables hold a page for every attended position.
struct PagedAttention {
    int32_t n_head = 0;
    int32_t n_head_kv = 0;
    int32_t head_dim_k = 0;
    int32_t head_dim_v = 0;
    float scale = 1.0f;
    float softcap = 0.0f;           // 0: none
    int32_t window = 0;             // 0: none
    const float * sinks = nullptr;  // [n_head], or null

    KvType k_type = KvType::f16;
    KvType v_type = KvType::f16;
    const void * k = nullptr;  // [n_cells, n_head_kv, head_dim_k]
    const void * v = nullptr;  // [n_cells, n_head_kv, head_dim_v]
    size_t k_row_bytes = 0;    // from cell to cell
    size_t v_row_bytes = 0;
    int32_t page_size = 0;
    const int32_t * block_tables = nullptr;  // [n_rows, max_pages]
    int32_t max_pages = 0;

    int32_t n_tokens = 0;
    const int32_t * rows = nullptr;       // [n_tokens], of the block tables
    const int32_t * positions = nullptr;  // [n_tokens]
    const float * q = nullptr;            // [n_tokens, n_head, head_dim_k]
    int64_t q_token_stride = 0;           // in floats
    int64_t q_head_stride = 0;
    float * out = nullptr;  // [n_tokens, n_head, head_dim_v]
};

// Computes the share of thread ith of nth. All of them must call it, with the same arguments and workspace, and all
// must have returned before it is called again with that workspace. There is no other synchronization between them,
// and no allocation. The result is a function of the arguments and of nth.
// PRECOND: `attention` and nth are within the workspace's limits.
void run(const PagedAttention & attention, Workspace & workspace, int ith, int nth);

}  // namespace orin::attention
