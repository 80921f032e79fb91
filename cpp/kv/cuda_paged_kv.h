// ggml's K and V, as kernels are told of them.
#pragma once

#include <optional>

#include "../../cuda/paged_kv.h"
#include "ggml.h"

namespace orin {

// nullopt: kernels do not know it.
inline std::optional<cuda::KvType> cuda_kv_type(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16:
            return cuda::KvType::f16;
        case GGML_TYPE_BF16:
            return cuda::KvType::bf16;
        case GGML_TYPE_Q8_0:
            return cuda::KvType::q8_0;
        case GGML_TYPE_Q4_0:
            return cuda::KvType::q4_0;
        default:
            return std::nullopt;
    }
}

// Of a layer whose rows are cells. PRECOND: the types of K and V are known.
inline cuda::PagedKv cuda_paged_kv(const ggml_tensor & k, const ggml_tensor & v, const ggml_tensor & block_tables,
                                   int32_t page_size) {
    cuda::PagedKv kv{};
    kv.k_type = *cuda_kv_type(k.type);
    kv.v_type = *cuda_kv_type(v.type);
    kv.k = k.data;
    kv.v = v.data;
    kv.k_row_bytes = static_cast<int64_t>(k.nb[1]);
    kv.v_row_bytes = static_cast<int64_t>(v.nb[1]);
    kv.n_head_kv = static_cast<int32_t>(k.ne[2]);
    kv.head_dim_k = static_cast<int32_t>(k.ne[0]);
    kv.head_dim_v = static_cast<int32_t>(v.ne[0]);
    kv.page_size = page_size;
    kv.block_tables = static_cast<const int32_t *>(block_tables.data);
    kv.max_pages = static_cast<int32_t>(block_tables.ne[0]);
    return kv;
}

}  // namespace orin
