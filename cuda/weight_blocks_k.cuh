// Blocks of 256 values: q4_K, q5_K, q6_K. Four lanes have a block, 64 values each; a piece has eight blocks.
#pragma once

#include "weight_blocks.cuh"

namespace orin::cuda {

namespace weight_detail {

constexpr int piece_blocks = 8;

// A lane of q4_K and q5_K: the two groups of its record.
struct RecordActivations {
    uint32_t values[16];
    float scales[2];
    float sums[2];

    // record: the piece's first one
    __device__ __forceinline__ void load(const char * piece, int lane, float second_factor) {
        const auto & record = reinterpret_cast<const ActivationRecord *>(piece)[lane];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            values[i] = word_of(record.values[i / 4], i % 4);
        }
        const uint4 groups = *reinterpret_cast<const uint4 *>(record.groups);
        scales[0] = __uint_as_float(groups.x);
        scales[1] = __uint_as_float(groups.z) * second_factor;
        sums[0] = __uint_as_float(groups.y);
        sums[1] = __uint_as_float(groups.w);
    }
};

// Scales and minima of two groups, from the 16 bytes at the head of a block: d and dmin, then 8 scales and 8 minima of
// 6 bits in three words. Those of the first four groups are the lower bits of the first and second word's bytes; of the
// others the third word has the lower four bits, and the upper two are the upper ones of the first and second word.
struct PairOfGroups {
    float d;
    float d_min;
    int scales[2];
    float minima[2];

    __device__ __forceinline__ void read(const uint4 & head, int pair) {
        const bool is_upper = pair >= 2;
        const int shift = pair % 2 * 16;
        const int first_shift = is_upper ? shift + 2 : shift;
        const uint32_t first_mask = is_upper ? 0x3030 : 0x3F3F;
        const uint32_t third_mask = is_upper ? 0x0F0F : 0;
        const uint32_t both_scales = (head.y >> first_shift & first_mask) | (head.w >> shift & third_mask);
        const uint32_t both_minima = (head.z >> first_shift & first_mask) | (head.w >> (shift + 4) & third_mask);
        d = low_half(head.x);
        d_min = high_half(head.x);
        scales[0] = int(both_scales & 0xFF);
        scales[1] = int(both_scales >> 8);
        minima[0] = float(int(both_minima & 0xFF));
        minima[1] = float(int(both_minima >> 8));
    }

    // dots: without scales
    __device__ __forceinline__ float add(float sum, const int (&dots)[2], const RecordActivations & x) const {
        const float scaled = x.scales[0] * float(scales[0] * dots[0]) + x.scales[1] * float(scales[1] * dots[1]);
        const float low = minima[0] * x.sums[0] + minima[1] * x.sums[1];
        return (sum + d * scaled) - d_min * low;
    }
};

// The quants of two groups, as bytes.
struct QuantsOfGroups {
    uint32_t low[8];
    uint32_t high[8];
    PairOfGroups groups;

    __device__ __forceinline__ float add(float sum, const RecordActivations & x) const {
        int dots[2] = {};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            dots[0] = dot_u8_s8(low[i], x.values[i], dots[0]);
            dots[1] = dot_u8_s8(high[i], x.values[8 + i], dots[1]);
        }
        return groups.add(sum, dots, x);
    }
};

}  // namespace weight_detail

template <>
struct PieceOf<WeightType::q4_K> {
    static constexpr int values = 2048;
    static constexpr int lane_values = 64;
    static constexpr int bytes = weight_detail::piece_blocks * 144;
    static constexpr int alignment = 16;

    struct Activations : weight_detail::RecordActivations {
        __device__ __forceinline__ void load(const char * piece, int lane, int) {
            RecordActivations::load(piece, lane, 1.0f / 16.0f);  // upper halves of bytes are multiplied as they are
        }
    };

    struct Weights : weight_detail::QuantsOfGroups {
        __device__ __forceinline__ void read(const char * piece, int lane, int) {
            const char * block = piece + lane / 4 * 144;
            const auto * quants = reinterpret_cast<const uint4 *>(block + 16 + lane % 4 * 32);
            const uint4 packed[2] = {quants[0], quants[1]};
#pragma unroll
            for (int i = 0; i < 8; i++) {
                low[i] = word_of(packed[i / 4], i % 4) & 0x0F0F0F0F;
                high[i] = word_of(packed[i / 4], i % 4) & 0xF0F0F0F0;
            }
            groups.read(*reinterpret_cast<const uint4 *>(block), lane % 4);
        }
    };
};

template <>
struct PieceOf<WeightType::q5_K> {
    static constexpr int values = 2048;
    static constexpr int lane_values = 64;
    static constexpr int bytes = weight_detail::piece_blocks * 176;
    static constexpr int alignment = 16;

    struct Activations : weight_detail::RecordActivations {
        __device__ __forceinline__ void load(const char * piece, int lane, int) {
            RecordActivations::load(piece, lane, 1.0f);
        }
    };

    struct Weights : weight_detail::QuantsOfGroups {
        // Bits 2 · pair and 2 · pair + 1 of a byte are the fifth bits of its lower and upper quant. Words are turned,
        // so that each comes next to its other four: what crosses bytes is masked, or turned back.
        __device__ __forceinline__ void read(const char * piece, int lane, int) {
            const int pair = lane % 4;
            const char * block = piece + lane / 4 * 176;
            const auto * fifth = reinterpret_cast<const uint4 *>(block + 16);
            const auto * quants = reinterpret_cast<const uint4 *>(block + 48 + pair * 32);
            const uint4 bits[2] = {fifth[0], fifth[1]};
            const uint4 packed[2] = {quants[0], quants[1]};
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const uint32_t four = word_of(packed[i / 4], i % 4);
                const uint32_t one = word_of(bits[i / 4], i % 4);
                low[i] = (four & 0x0F0F0F0F) | (__funnelshift_r(one, one, 2 * pair - 4) & 0x10101010);
                const uint32_t above = (four & 0xF0F0F0F0) | (__funnelshift_r(one, one, 2 * pair - 7) & 0x01010101);
                high[i] = __funnelshift_r(above, above, 4);
            }
            groups.read(*reinterpret_cast<const uint4 *>(block), pair);
        }
    };
};

// A lane has 16 neighbouring values of each of the four groups of half a block. Quants are multiplied as they are, 0 to
// 63, those of the last two groups by four besides, which leaves their bits where they are in a byte. Dots begin with
// what makes up for the missing -32.
template <>
struct PieceOf<WeightType::q6_K> {
    static constexpr int values = 2048;
    static constexpr int lane_values = 64;
    static constexpr int bytes = weight_detail::piece_blocks * 210;
    static constexpr int alignment = 2;

    struct Activations {
        uint32_t values[4][4];
        float scales[4];
        int start[4];  // -32 or -128 times the sum of the values

        __device__ __forceinline__ void load(const char * piece, int lane, int) {
            const int half = lane % 2;
            const auto * record = reinterpret_cast<const ActivationRecord *>(piece) + lane / 2 * 2;
#pragma unroll
            for (int group = 0; group < 4; group++) {
                const uint4 of_group = record[group / 2].values[group % 2 * 2 + half];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    values[group][i] = word_of(of_group, i);
                }
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint4 groups = *reinterpret_cast<const uint4 *>(record[i].groups);
                const float factor = i == 0 ? 1.0f : 0.25f;
                scales[2 * i] = __uint_as_float(groups.x) * factor;
                scales[2 * i + 1] = __uint_as_float(groups.z) * factor;
                start[2 * i] = (i == 0 ? -32 : -128) * int(int16_t(groups.y >> half * 16));
                start[2 * i + 1] = (i == 0 ? -32 : -128) * int(int16_t(groups.w >> half * 16));
            }
        }
    };

    struct Weights {
        uint32_t quants[4][4];
        int scales[4];
        float d;

        __device__ __forceinline__ void read(const char * piece, int lane, int) {
            const char * block = piece + lane / 4 * 210;
            const int of_block = lane / 2 % 2;  // half
            const char * lower = block + of_block * 64 + lane % 2 * 16;
            uint32_t first[4];
            uint32_t second[4];
            uint32_t upper[4];
            const EvenWords words(block);
            words.read(lower, first);
            words.read(lower + 32, second);
            words.read(block + 128 + of_block * 32 + lane % 2 * 16, upper);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t by_2 = upper[i] << 2;
                quants[0][i] = (first[i] & 0x0F0F0F0F) | (upper[i] << 4 & 0x30303030);
                quants[1][i] = (second[i] & 0x0F0F0F0F) | (by_2 & 0x30303030);
                quants[2][i] = (first[i] >> 2 & 0x3C3C3C3C) | (by_2 & 0xC0C0C0C0);
                quants[3][i] = (second[i] >> 2 & 0x3C3C3C3C) | (upper[i] & 0xC0C0C0C0);
            }
            const auto * scale = reinterpret_cast<const int8_t *>(block + 192 + of_block * 8 + lane % 2);
#pragma unroll
            for (int group = 0; group < 4; group++) {
                scales[group] = scale[group * 2];
            }
            d = half_at(block + 208);
        }

        __device__ __forceinline__ float add(float sum, const Activations & x) const {
            float scaled = 0.0f;
#pragma unroll
            for (int group = 0; group < 4; group++) {
                int dot = x.start[group];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    dot = dot_u8_s8(quants[group][i], x.values[group][i], dot);
                }
                scaled += x.scales[group] * float(scales[group] * dot);
            }
            return sum + d * scaled;
        }
    };
};

}  // namespace orin::cuda
