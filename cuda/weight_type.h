// The types of weights that our matrix kernels read.
#pragma once

#include <cstdint>

namespace orin::cuda {

// As ggml lays out rows of these types.
enum class WeightType : int32_t { f16, q8_0, q4_0, q4_1, q4_K, q5_K, q6_K };

constexpr int32_t n_weight_types = 7;

}  // namespace orin::cuda
