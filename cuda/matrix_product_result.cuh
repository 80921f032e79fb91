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

// first_row: of the matrix; first_token: of all.
template <typename Tile>
__device__ __forceinline__ void write_results(const MatrixParams & p, const WeightMatrix & matrix, int32_t first_row,
                                              int32_t first_token, const float * sums) {
    const bool is_gate = p.gate != Gate::none;
    const int groups = (is_gate ? Tile::rows / 2 : Tile::rows) / 32;
    const int lane = int(threadIdx.x) % 32;
    for (int i = int(threadIdx.x) / 32; i < Tile::tokens * groups; i += product_warps) {
        const int in_tile = i % groups * 32 + lane;
        const int32_t row = first_row + in_tile;
        const int64_t token = first_token + i / groups;
        if (token >= p.n_tokens) {
            return;
        }
        const bool is_there = row < matrix.n_rows;
        const float factor = row_factor(activation_row(p.input, token), p.input.n_values);
        const float * of_token = sums + i / groups * Tile::sums_stride;
        float value = of_token[in_tile] * factor;
        if (matrix.bias != nullptr && is_there) {
            value += matrix.bias[row];
        }
        if (is_gate) {
            float second = of_token[Tile::rows / 2 + in_tile] * factor;
            if (p.matrices[1].bias != nullptr && is_there) {
                second += p.matrices[1].bias[row];
            }
            value = apply_gate(p.gate, value) * second;
        }
        const int64_t place = token * matrix.n_rows + row;
        if (p.residual != nullptr && is_there) {
            value += p.residual[place];
        }
        if (p.out_rows.rows != nullptr) {
            store_row_values<1>(p.out_rows, token, row, {value});
        } else if (is_there) {
            matrix.out[place] = value;
        }
    }
}

}  // namespace orin::cuda
