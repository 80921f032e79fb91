// What becomes of the sums of a block's tile: parts of split rows are put together, and then turned into the result.
#pragma once

#include <cuda_runtime.h>

#include "activation_rows.cuh"
#include "gate.cuh"
#include "last_arrival.cuh"
#include "matrix_product_tile.cuh"

namespace orin::cuda {

// A warp's sums to shared memory: [token][row].
template <typename Tile>
__device__ __forceinline__ void store_sums(const float (&sums)[Tile::sixteens][Tile::tokens / 8][4], float factor,
                                           float * shared) {
    const int g = int(threadIdx.x) % 32 / 4;
    const int t = int(threadIdx.x) % 4;
#pragma unroll
    for (int i = 0; i < Tile::sixteens; i++) {
        const int row = (int(threadIdx.x) / 32 * Tile::sixteens + i) * 16 + g;
#pragma unroll
        for (int n = 0; n < Tile::tokens / 8; n++) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                shared[(n * 8 + t * 2 + k % 2) * Tile::sums_stride + row + k / 2 * 8] = sums[i][n][k] * factor;
            }
        }
    }
}

// Calls f(sum in shared memory, its number in a part) for all of the tile.
template <typename Tile, typename Function>
__device__ __forceinline__ void for_all_sums(float * sums, const Function & f) {
    constexpr int row_fours = Tile::rows / 4;
    for (int i = int(threadIdx.x); i < Tile::tokens * row_fours; i += product_threads) {
        f(*reinterpret_cast<float4 *>(sums + i / row_fours * Tile::sums_stride + i % row_fours * 4), i);
    }
}

// The sums of this part of the rows to the workspace. For the last block of a tile that arrives, all parts' sums, added
// up in their order: bits do not depend on which block it is. Whether it is that one.
// parts: the tile's in the workspace, [n_parts, tokens, rows]; is_last: a word of shared memory
template <typename Tile>
__device__ __forceinline__ bool merge_parts(float * sums, float4 * parts, int part, int n_parts, int32_t * arrived,
                                            int * is_last) {
    constexpr int n = Tile::tokens * Tile::rows / 4;
    for_all_sums<Tile>(sums, [&](float4 & four, int i) { parts[part * n + i] = four; });
    if (!arrive_last(arrived, n_parts, is_last)) {
        return false;
    }
    for_all_sums<Tile>(sums, [&](float4 & four, int i) {
        float4 sum = parts[i];
        for (int other = 1; other < n_parts; other++) {
            const float4 more = parts[other * n + i];
            sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
        }
        four = sum;
    });
    __syncthreads();
    return true;
}

// first_row: of the matrix; first_token: of all. A warp has 32 rows, of every so many tokens. What comes from memory
// for several tokens is asked for before any of them is stored: stores may be where the next token's residual is.
template <typename Tile>
__device__ __forceinline__ void write_results(const MatrixParams & p, const WeightMatrix & matrix, int32_t first_row,
                                              int32_t first_token, const float * sums) {
    constexpr int together = Tile::tokens <= 16 ? 4 : 8;
    const bool is_gate = p.gate != Gate::none;
    const int groups = (is_gate ? Tile::rows / 2 : Tile::rows) / 32;
    static_assert(product_warps % (Tile::rows / 32) == 0);
    const int warp = int(threadIdx.x) / 32;
    const int in_tile = warp % groups * 32 + int(threadIdx.x) % 32;
    const int step = product_warps / groups;
    const int n_tokens = min(Tile::tokens, p.n_tokens - first_token);

    const int32_t row = first_row + in_tile;
    const bool is_there = row < matrix.n_rows;
    const auto bias_of = [&](const float * bias) { return bias != nullptr && is_there ? bias[row] : 0.0f; };
    const float bias = bias_of(matrix.bias);
    const float second_bias = is_gate ? bias_of(p.matrices[1].bias) : 0.0f;
    const auto place_of = [&](int token) { return int64_t(first_token + token) * matrix.n_rows + row; };
#pragma unroll 1
    for (int first = warp / groups; first < n_tokens; first += step * together) {
        float factors[together];
        float residuals[together];
#pragma unroll
        for (int i = 0; i < together; i++) {
            const int token = min(first + i * step, n_tokens - 1);
            factors[i] = row_factor(activation_row(p.input, first_token + token), p.input.n_values);
            residuals[i] = p.residual != nullptr && is_there ? p.residual[place_of(token)] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < together; i++) {
            const int token = first + i * step;
            if (token >= n_tokens) {
                return;
            }
            const float * of_token = sums + token * Tile::sums_stride + in_tile;
            float value = of_token[0] * factors[i] + bias;
            if (is_gate) {
                value = apply_gate(p.gate, value) * (of_token[Tile::rows / 2] * factors[i] + second_bias);
            }
            value += residuals[i];
            if (p.out_rows.rows != nullptr) {
                store_row_values<1>(p.out_rows, first_token + token, row, {value});
            } else if (is_there) {
                matrix.out[place_of(token)] = value;
            }
        }
    }
}

}  // namespace orin::cuda
