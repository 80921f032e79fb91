// K and V of one layer, in pages: what every kernel that reads them is told.
#pragma once

#include <cstdint>

#include "kv_type.h"

namespace orin::cuda {

constexpr int32_t kv_min_page_size = 8;

// Position t of a sequence lies in the cell page · page_size + t % page_size; page is entry t / page_size of its row of
// the block tables. All pointers are of the device.
struct PagedKv {
    KvType k_type;
    KvType v_type;
    const void * k;       // [n_cells, n_head_kv, head_dim_k]
    const void * v;       // [n_cells, n_head_kv, head_dim_v]
    int64_t k_row_bytes;  // from cell to cell
    int64_t v_row_bytes;
    int32_t n_head_kv;
    int32_t head_dim_k;
    int32_t head_dim_v;
    int32_t page_size;
    const int32_t * block_tables;  // [n_rows, max_pages]
    int32_t max_pages;
};

// f16 and bf16 are read 16 bytes at a time, quantized rows 2. Cells may still be null.
inline bool can_read_kv_rows(KvType type, const void * cells, int64_t row_bytes, int32_t n_heads, int32_t head_dim) {
    if (head_dim <= 0 || head_dim > kv_max_head_dim || head_dim % (is_quantized(type) ? kv_block_values : 16) != 0) {
        return false;
    }
    const int64_t alignment = is_quantized(type) ? 2 : 16;
    return reinterpret_cast<uintptr_t>(cells) % alignment == 0 && row_bytes % alignment == 0 &&
           row_bytes >= n_heads * int64_t(kv_row_bytes(type, head_dim));
}

// Whether kernels cover sizes, types and alignments; pointers may still be null, as when a graph is planned.
inline bool can_read_kv(const PagedKv & kv) {
    return kv.n_head_kv > 0 && kv.page_size >= kv_min_page_size && (kv.page_size & (kv.page_size - 1)) == 0 &&
           kv.max_pages > 0 && can_read_kv_rows(kv.k_type, kv.k, kv.k_row_bytes, kv.n_head_kv, kv.head_dim_k) &&
           can_read_kv_rows(kv.v_type, kv.v, kv.v_row_bytes, kv.n_head_kv, kv.head_dim_v);
}

inline bool has_kv(const PagedKv & kv) {
    return kv.k != nullptr && kv.v != nullptr && kv.block_tables != nullptr;
}

}  // namespace orin::cuda
