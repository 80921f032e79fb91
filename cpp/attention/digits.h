// Scores of K of whole numbers (q8_0, q4_0) by integer dot products, where the processor has them.
//
// A query's values become whole numbers of 21 bits and a sign, relative to its largest: 2^14 · a + 2^7 · b + c, digits
// that are signed bytes. This is as exact as its products with K are in float: to round Q to single bytes, as
// llama.cpp does, would cost as much as K's own rounding did.
#pragma once

#include <cstdint>

#include "kv_rows.h"
#include "plan.h"

namespace orin::attention {

template <typename Row>
#if defined(__ARM_FEATURE_DOTPROD)
inline constexpr bool scored_by_digits = Row::quantized;
#else
inline constexpr bool scored_by_digits = false;
#endif

// Q of one head becomes digits. to: [dim] floats, of which the digits take a part
void to_digits(const float * q, int dim, float * to);

// scores[head][key] = q[head]·K[key]. q: digits of n_heads heads, `stride` floats apart; keys: n rows, up to a multiple
// of 4; scores: [n_heads, tile]
template <typename Row, int n_heads>
[[gnu::noinline]] void score_by_digits(const float * q, int64_t stride, int dim, const char * const * keys, int n,
                                       float * scores);

#if defined(__ARM_FEATURE_DOTPROD)

inline constexpr int n_digits = 3;
inline constexpr int digit_bits = 7;
inline constexpr float largest_number = 127 << (n_digits - 1) * digit_bits;

// Bytes of a block of 32 values: its first digits, the highest, come first. Behind the last block is the scale (float).
inline constexpr int block_bytes = n_digits * 32;

inline void to_digits(const float * q, int dim, float * to) {
    float32x4_t most = {};
    for (int i = 0; i < dim; i += lanes) {
        most = vmaxq_f32(most, vabsq_f32(load(q + i)));  // what is no number stays
    }
    const float largest = vmaxvq_f32(most);
    const float numbers_per_unit = largest > 1e-30f ? largest_number / largest : 0.0f;
    auto * bytes = reinterpret_cast<int8_t *>(to);
    for (int i = 0; i < dim; i += lanes) {
        int32x4_t rest = vcvtnq_s32_f32(load(q + i) * numbers_per_unit);
        int8_t * digits = bytes + i / 32 * block_bytes + i % 32;
        for (int digit = n_digits - 1; digit >= 0; --digit) {
            const int32x4_t higher = (rest + (1 << (digit_bits - 1))) >> digit_bits;
            const int32x4_t lowest = digit == 0 ? rest : rest - (higher << digit_bits);
            const int8x8_t narrow = vmovn_s16(vcombine_s16(vmovn_s32(lowest), vmovn_s32(lowest)));
            std::memcpy(digits + digit * 32, &narrow, lanes);
            rest = higher;
        }
    }
    const float scale = largest / largest_number;
    std::memcpy(bytes + dim / 32 * block_bytes, &scale, sizeof scale);
}

// Four parts of the dot product of 32 values. The largest numbers, 127 · 2^14 in Q and -128 in K, make less than 2^31.
inline int32x4_t dot(const int8_t * digits, const WholeNumbers & k) {
    int32x4_t sum = {};
#pragma GCC unroll 3
    for (int digit = 0; digit < n_digits; ++digit) {
        sum = vdotq_s32(sum << digit_bits, read<int8x16_t>(digits + digit * 32), k.low);
        sum = vdotq_s32(sum, read<int8x16_t>(digits + digit * 32 + 16), k.high);
    }
    return sum;
}

template <typename Row, int n_heads>
void score_by_digits(const float * q, int64_t stride, int dim, const char * const * keys, int n, float * scores) {
    constexpr int n_keys = n_heads <= 2 ? 4 : 2;  // processed together
    constexpr int n_sums = (n_heads * n_keys + lanes - 1) / lanes * lanes;
    for (int key = 0; key < n; key += n_keys) {
        Floats sums[n_sums] = {};
        for (int i = 0; i < dim; i += 32) {
            WholeNumbers k[n_keys];
#pragma GCC unroll 4
            for (int j = 0; j < n_keys; ++j) {
                k[j] = Row::block(keys[key + j], i);
            }
#pragma GCC unroll 4
            for (int h = 0; h < n_heads; ++h) {
                const auto * digits = reinterpret_cast<const int8_t *>(q + h * stride) + i / 32 * block_bytes;
#pragma GCC unroll 4
                for (int j = 0; j < n_keys; ++j) {
                    sums[h * n_keys + j] += vcvtq_f32_s32(dot(digits, k[j])) * k[j].scale;
                }
            }
        }
#pragma GCC unroll 4
        for (int h = 0; h < n_heads; ++h) {
            const auto scale = read<float>(reinterpret_cast<const int8_t *>(q + h * stride) + dim / 32 * block_bytes);
#pragma GCC unroll 4
            for (int j = 0; j < n_keys; ++j) {
                sums[h * n_keys + j] *= scale;
            }
        }
        store_sums<n_heads, n_keys>(sums, scores + key, tile);
    }
}

#endif

}  // namespace orin::attention
