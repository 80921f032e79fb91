// A warp's 16 rows of queries over 16 positions at a time, by matrix products: scores, weights, sums of V.
//
// g = lane / 4 and t = lane % 4, as in device/intrinsics.cuh. A lane has two rows, g and g + 8, of all results.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <device/intrinsics.cuh>

#include "attention_copy.cuh"
#include "attention_merge.cuh"

namespace orin::cuda {

constexpr float log2_of_e = 1.44269504f;
// Weights are 2^(score - the largest + this), so that as f16 they keep all bits down to 2^-23 of the largest.
constexpr float weight_exponent = 9.0f;

// f16 of a tile in shared memory. stride: in bytes
struct TileHalves {
    const char * rows;
    int stride;

    __device__ __forceinline__ const char * at(int row, int column) const { return rows + row * stride + column * 2; }
};

// The positions that a row of queries attends to.
struct RowRange {
    int first;
    int behind;
};

constexpr int matrices_largest_dim = 256;  // of heads

// Rows as f16, each times a power of two; zeros behind them. factors: what makes products of them scores
__device__ __forceinline__ void load_queries_as_halves(const PagedAttentionParams & p, const AttentionRun & run,
                                                       int n_padded, char * queries, int stride, float * factors) {
    const int dim = p.kv.head_dim_k;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int row = static_cast<int>(threadIdx.x) / 32; row < n_padded; row += attention_warps) {
        const bool is_row = row < run.n_rows();
        const float * q = p.q;
        if (is_row) {
            q += run.token_of(row) * p.q_token_stride + run.head_of(row) * p.q_head_stride;
        }
        float values[matrices_largest_dim / 32];
        float largest = 0.0f;
#pragma unroll
        for (int i = 0; i < matrices_largest_dim / 32; i++) {
            values[i] = is_row && lane + i * 32 < dim ? q[lane + i * 32] : 0.0f;
            largest = fmaxf(largest, fabsf(values[i]));
        }
        const float factor = f16_factor(largest_of_warp(largest));
#pragma unroll
        for (int i = 0; i < matrices_largest_dim / 32; i++) {
            if (lane + i * 32 < dim) {
                reinterpret_cast<__half *>(queries + row * stride)[lane + i * 32] =
                    __float2half_rn(values[i] * inverse_of_f16_factor(factor));
            }
        }
        if (lane == 0) {
            factors[row] = p.scale * factor * (p.softcap == 0.0f ? log2_of_e : 1.0f);
        }
    }
}

// Heads of max_dim channels, or, where they are not exact, of at most as many.
template <int max_dim, bool exact>
class RowTile {
   public:
    static constexpr bool keeps_queries = max_dim <= 128;  // in registers

    // queries: of the warp's rows; factors: what products become scores by, of the rows
    __device__ __forceinline__ RowTile(int head_dim_k, int head_dim_v, const TileHalves & queries,
                                       const float * factors)
        : max{no_score, no_score}, sums(), totals(), n_k_(head_dim_k / 16), n_v_(head_dim_v / 16), queries_(queries) {
        const int g = lane() / 4;
        factors_[0] = factors[g];
        factors_[1] = factors[g + 8];
        if constexpr (keeps_queries) {
#pragma unroll
            for (int k = 0; k < max_dim / 16; k++) {
                if (exact || k < n_k_) {
                    load_matrices(kept_[k], queries.at(lane() % 16, k * 16 + lane() / 16 * 8));
                }
            }
        }
    }

    // A sink counts as a position without a value. sinks: of the lane's rows
    __device__ __forceinline__ void begin_with(float sink, int i) {
        max[i] = fmaxf(sink * log2_of_e, no_score);
        totals[2 * i] = totals[2 * i + 1] = exp2_approximate(weight_exponent);
    }

    // 16 positions from `position` on, which are the first rows of keys and values. ranges: of the lane's rows;
    // all_attend: every row of the warp attends to every position
    __device__ __forceinline__ void attend(const TileHalves & keys, const TileHalves & values, int position,
                                           const RowRange (&ranges)[2], bool all_attend, float softcap) {
        float scores[2][4] = {};
        multiply_keys(keys, scores);
        for_all(scores, [&](float & score, int i, int) { score *= factors_[i]; });
        if (softcap != 0.0f) {
            for_all(scores, [&](float & score, int, int) { score = softcap * log2_of_e * tanhf(score / softcap); });
        }
        if (!all_attend) {
            for_all(scores, [&](float & score, int i, int column) {
                const int at = position + column;
                score = at >= ranges[i].first && at < ranges[i].behind ? score : -INFINITY;
            });
        }
        find_largest(scores);
        add_values(values, scores);
    }

    // sums: [warps, 16, stride], largest, total: [warps, 16]
    __device__ __forceinline__ void store(int warp, float * to, int stride, float * largest, float * total) const {
        const int g = lane() / 4;
        const int t = lane() % 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int row = warp * matrix_rows + g + i * 8;
#pragma unroll
            for (int j = 0; j < max_dim / 8; j++) {
                if (exact || j < n_v_ * 2) {
                    *reinterpret_cast<float2 *>(to + row * stride + j * 8 + 2 * t) = {sums[j][2 * i],
                                                                                      sums[j][2 * i + 1]};
                }
            }
            if (t == 0) {
                largest[row] = max[i];
                total[row] = totals[2 * i];
            }
        }
    }

   private:
    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

    // Calls f(score, which of the lane's rows, column) for all that the lane has.
    template <typename Function>
    static __device__ __forceinline__ void for_all(float (&scores)[2][4], const Function & f) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                f(scores[j][i], i / 2, j * 8 + lane() % 4 * 2 + i % 2);
            }
        }
    }

    __device__ __forceinline__ void multiply_keys(const TileHalves & keys, float (&scores)[2][4]) const {
        const int row = lane() / 16 * 8 + lane() % 8;
        const int column = lane() / 8 % 2 * 8;
#pragma unroll
        for (int k = 0; k < max_dim / 16; k++) {
            if (exact || k < n_k_) {
                uint32_t q[4];
                if constexpr (keeps_queries) {
                    for (int i = 0; i < 4; i++) {
                        q[i] = kept_[k][i];
                    }
                } else {
                    load_matrices(q, queries_.at(lane() % 16, k * 16 + lane() / 16 * 8));
                }
                uint32_t k16[4];
                load_matrices(k16, keys.at(row, k * 16 + column));
                mma_f16(scores[0], q, {k16[0], k16[1]});
                mma_f16(scores[1], q, {k16[2], k16[3]});
            }
        }
    }

    // Where a largest score grows, what was summed up is made smaller.
    __device__ __forceinline__ void find_largest(const float (&scores)[2][4]) {
        float largest[2] = {max[0], max[1]};
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                largest[i / 2] = fmaxf(largest[i / 2], scores[j][i]);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            largest[i] = fmaxf(largest[i], __shfl_xor_sync(all_lanes, largest[i], 1));
            largest[i] = fmaxf(largest[i], __shfl_xor_sync(all_lanes, largest[i], 2));
        }
        if (!__any_sync(all_lanes, largest[0] != max[0] || largest[1] != max[1])) {
            return;
        }
        const float factors[2] = {exp2_approximate(max[0] - largest[0]), exp2_approximate(max[1] - largest[1])};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            totals[i] *= factors[i / 2];
#pragma unroll
            for (int j = 0; j < max_dim / 8; j++) {
                sums[j][i] *= factors[i / 2];
            }
        }
        max[0] = largest[0];
        max[1] = largest[1];
    }

    // Weights as they come out of one product are what goes into the other.
    __device__ __forceinline__ void add_values(const TileHalves & values, const float (&scores)[2][4]) {
        constexpr uint32_t ones = 0x3C003C00;
        const int row = lane() % 16;
        const int column = lane() / 16 * 8;
        uint32_t weights[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float * pair = &scores[i / 2][i % 2 * 2];
            const float less = max[i % 2] - weight_exponent;
            weights[i] = as_bits(__floats2half2_rn(exp2_approximate(pair[0] - less), exp2_approximate(pair[1] - less)));
        }
        mma_f16(totals, weights, {ones, ones});
#pragma unroll
        for (int k = 0; k < max_dim / 16; k++) {
            if (exact || k < n_v_) {
                uint32_t v16[4];
                load_matrices_transposed(v16, values.at(row, k * 16 + column));
                mma_f16(sums[2 * k], weights, {v16[0], v16[1]});
                mma_f16(sums[2 * k + 1], weights, {v16[2], v16[3]});
            }
        }
    }

    float max[2];                // of scores, in powers of two
    float sums[max_dim / 8][4];  // of V
    float totals[4];             // of weights: every column is the sum of its row
    int n_k_;
    int n_v_;
    TileHalves queries_;
    float factors_[2];
    uint32_t kept_[keeps_queries ? max_dim / 16 : 1][4];
};

}  // namespace orin::cuda
