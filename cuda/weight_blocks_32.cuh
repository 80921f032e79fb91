// Blocks of 32 values: q8_0, q4_0, q4_1. A lane has a block, and so half a record of activations.
#pragma once

#include "weight_blocks.cuh"

namespace orin::cuda {

namespace weight_detail {

struct GroupActivations {
    uint32_t values[8];
    float scale;
    float sum;

    __device__ __forceinline__ void load(const char * piece, int lane, int) {
        const auto & record = reinterpret_cast<const ActivationRecord *>(piece)[lane / 2];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            values[i] = word_of(record.values[lane % 2 * 2 + i / 4], i % 4);
        }
        const uint2 group = *reinterpret_cast<const uint2 *>(&record.groups[lane % 2]);
        scale = __uint_as_float(group.x);
        sum = __uint_as_float(group.y);
    }
};

// 16 bytes with the block's first 16 quants in their lower halves.
struct Quants4 {
    uint32_t packed[4];

    // 16 · Σ quant · value: upper halves of bytes are multiplied as they are.
    __device__ __forceinline__ int dot(const GroupActivations & x) const {
        int low = 0;
        int high = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            low = dot_u8_s8(packed[i] & 0x0F0F0F0F, x.values[i], low);
            high = dot_u8_s8(packed[i] & 0xF0F0F0F0, x.values[4 + i], high);
        }
        return 16 * low + high;
    }
};

}  // namespace weight_detail

template <>
struct PieceOf<WeightType::q8_0> {
    static constexpr int values = 1024;
    static constexpr int lane_values = 32;
    static constexpr int bytes = 32 * 34;
    static constexpr int alignment = 2;
    using Activations = weight_detail::GroupActivations;

    struct Weights {
        uint32_t quants[8];
        float d;

        __device__ __forceinline__ void read(const char * piece, int lane, int) {
            const char * block = piece + lane * 34;
            d = half_at(block);
            EvenWords(block + 2).read(block + 2, quants);
        }

        __device__ __forceinline__ float add(float sum, const Activations & x) const {
            int dot = 0;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                dot = __dp4a(int(quants[i]), int(x.values[i]), dot);
            }
            return sum + d * x.scale * float(dot);
        }
    };
};

template <>
struct PieceOf<WeightType::q4_0> {
    static constexpr int values = 1024;
    static constexpr int lane_values = 32;
    static constexpr int bytes = 32 * 18;
    static constexpr int alignment = 2;
    using Activations = weight_detail::GroupActivations;

    struct Weights {
        weight_detail::Quants4 quants;
        float d;

        __device__ __forceinline__ void read(const char * piece, int lane, int) {
            const char * block = piece + lane * 18;
            d = half_at(block);
            EvenWords(block + 2).read(block + 2, quants.packed);
        }

        __device__ __forceinline__ float add(float sum, const Activations & x) const {
            return sum + d * (x.scale * (1.0f / 16.0f) * float(quants.dot(x)) - 8.0f * x.sum);
        }
    };
};

template <>
struct PieceOf<WeightType::q4_1> {
    static constexpr int values = 1024;
    static constexpr int lane_values = 32;
    static constexpr int bytes = 32 * 20;
    static constexpr int alignment = 4;
    using Activations = weight_detail::GroupActivations;

    struct Weights {
        weight_detail::Quants4 quants;
        float d;
        float low;

        __device__ __forceinline__ void read(const char * piece, int lane, int) {
            const auto * block = reinterpret_cast<const uint32_t *>(piece + lane * 20);
            d = low_half(block[0]);
            low = high_half(block[0]);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                quants.packed[i] = block[1 + i];
            }
        }

        __device__ __forceinline__ float add(float sum, const Activations & x) const {
            return sum + d * (x.scale * (1.0f / 16.0f)) * float(quants.dot(x)) + low * x.sum;
        }
    };
};

}  // namespace orin::cuda
