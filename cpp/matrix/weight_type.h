// ggml's types of weights, as kernels are told of them.
#pragma once

#include <optional>

#include "../../cuda/weight_type.h"
#include "ggml.h"

namespace orin {

// nullopt: kernels do not know it.
inline std::optional<cuda::WeightType> cuda_weight_type(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16:
            return cuda::WeightType::f16;
        case GGML_TYPE_Q8_0:
            return cuda::WeightType::q8_0;
        case GGML_TYPE_Q4_0:
            return cuda::WeightType::q4_0;
        case GGML_TYPE_Q4_1:
            return cuda::WeightType::q4_1;
        case GGML_TYPE_Q4_K:
            return cuda::WeightType::q4_K;
        case GGML_TYPE_Q5_K:
            return cuda::WeightType::q5_K;
        case GGML_TYPE_Q6_K:
            return cuda::WeightType::q6_K;
        default:
            return std::nullopt;
    }
}

}  // namespace orin
