// f16 weights, for activations in f32. A lane has four neighbouring values of each 128.
#pragma once

#include "weight_blocks.cuh"

namespace orin::cuda {

template <>
struct PieceOf<WeightType::f16> {
    static constexpr int values = 512;
    static constexpr int lane_values = 4;
    static constexpr int bytes = values * 2;
    static constexpr int alignment = 16;

    struct Activations {
        float4 values[4];

        // What is behind the row is 0, for the weights too: what lies there may be no number.
        __device__ __forceinline__ void load(const char * piece, int lane, int n_left) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const bool is_in_row = i * 128 + lane * 4 < n_left;
                values[i] = is_in_row ? reinterpret_cast<const float4 *>(piece)[i * 32 + lane] : float4{};
            }
        }
    };

    struct Weights {
        uint2 pairs[4];

        __device__ __forceinline__ void read(const char * piece, int lane, int n_left) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const bool is_in_row = i * 128 + lane * 4 < n_left;
                pairs[i] = is_in_row ? reinterpret_cast<const uint2 *>(piece)[i * 32 + lane] : uint2{};
            }
        }

        __device__ __forceinline__ float add(float sum, const Activations & x) const {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sum += low_half(pairs[i].x) * x.values[i].x + high_half(pairs[i].x) * x.values[i].y;
                sum += low_half(pairs[i].y) * x.values[i].z + high_half(pairs[i].y) * x.values[i].w;
            }
            return sum;
        }
    };
};

}  // namespace orin::cuda
