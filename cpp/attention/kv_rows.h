// How K and V lie in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "paged_attention.h"

#if defined(__AVX2__)
#include "rows_x86.h"
#else
#include "rows_neon.h"
#endif

namespace orin::attention {

// Calls f with an object of the row type of `type`.
template <typename Function>
inline decltype(auto) with_row_type(KvType type, Function && f) {
    switch (type) {
        case KvType::f16:
            return f(F16Row{});
        case KvType::bf16:
            return f(Bf16Row{});
        case KvType::q8_0:
            return f(Q8Row{});
        default:
            return f(Q4Row{});
    }
}

inline size_t row_bytes(KvType type, int32_t n_values) {
    switch (type) {
        case KvType::f16:
        case KvType::bf16:
            return size_t(n_values) * 2;
        case KvType::q8_0:
            return size_t(n_values) / 32 * 34;
        default:
            return size_t(n_values) / 32 * 18;
    }
}

// Where K or V of one KV head lies for a sequence.
struct HeadRows {
    const char * base;  // of the head in cell 0
    size_t row_bytes;   // from cell to cell
    const int32_t * pages;
    int32_t page_size;
    int page_shift;

    // rows: [n_padded]; first those of n positions from `position` on, then again and again the last one.
    void gather(int32_t position, int n, int n_padded, const char ** rows) const {
        for (int i = 0; i < n;) {
            const int32_t offset = (position + i) & (page_size - 1);
            const int64_t cell = (int64_t(pages[(position + i) >> page_shift]) << page_shift) + offset;
            const char * row = base + cell * int64_t(row_bytes);
            const int n_here = std::min(n - i, page_size - offset);
            for (int j = 0; j < n_here; ++j) {
                rows[i + j] = row + size_t(j) * row_bytes;
            }
            i += n_here;
        }
        std::fill(rows + n, rows + n_padded, rows[n - 1]);
    }
};

// K and V of a KV head for the tokens of a row of the block tables.
struct KvHead {
    HeadRows k;
    HeadRows v;

    KvHead(const PagedAttention & a, int32_t row, int32_t kv_head) {
        const int32_t * pages = a.block_tables + int64_t(row) * a.max_pages;
        const int shift = __builtin_ctz(static_cast<unsigned>(a.page_size));
        const auto * k_base = static_cast<const char *>(a.k) + row_bytes(a.k_type, kv_head * a.head_dim_k);
        const auto * v_base = static_cast<const char *>(a.v) + row_bytes(a.v_type, kv_head * a.head_dim_v);
        k = {k_base, a.k_row_bytes, pages, a.page_size, shift};
        v = {v_base, a.v_row_bytes, pages, a.page_size, shift};
    }
};

}  // namespace orin::attention
