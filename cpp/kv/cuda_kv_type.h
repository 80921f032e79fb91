// ggml's types of K and V, as kernels call them.
#pragma once

#include <optional>

#include "../../cuda/kv_type.h"
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

}  // namespace orin
