// What becomes of a block's sums: the result, or a piece of it that the last block to arrive puts together.
#pragma once

#include <cuda_runtime.h>

#include "activation_rows.cuh"
#include "attention_run.cuh"
#include "last_arrival.cuh"

namespace orin::cuda {

// Below any score, and far enough from the limits of float that differences to it are finite.
constexpr float no_score = -1e38f;
constexpr unsigned all_lanes = 0xFFFFFFFF;

__device__ __forceinline__ float largest_of_warp(float x) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x = fmaxf(x, __shfl_xor_sync(all_lanes, x, distance));
    }
    return x;
}

__device__ __forceinline__ float sum_of_warp(float x) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(all_lanes, x, distance);
    }
    return x;
}

__device__ __forceinline__ float4 & operator+=(float4 & sum, const float4 & x) {
    return sum = {sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w};
}
__device__ __forceinline__ float4 operator*(float factor, const float4 & x) {
    return {factor * x.x, factor * x.y, factor * x.z, factor * x.w};
}
__device__ __forceinline__ float4 operator/(const float4 & x, float by) {
    return {x.x / by, x.y / by, x.z / by, x.w / by};
}

// Stores what a run's results are, four channels at a time, as f(row, channel) says. All threads take part.
template <typename Function>
__device__ __forceinline__ void store_results(const PagedAttentionParams & p, const AttentionRun & run,
                                              const Function & f) {
    const int dim = p.kv.head_dim_v;
    const int n = run.n_rows() * dim / 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = threadIdx.x; i - lane < n; i += attention_threads) {
        const int row = i * 4 / dim;
        const int channel = i * 4 - row * dim;
        const float4 x = i < n ? f(row, channel) : float4{};
        store_row_values<4>(p.out, i < n ? run.token_of(row) : run.token, i < n ? run.head_of(row) * dim + channel : -1,
                            {x.x, x.y, x.z, x.w});
    }
}

// Index of a piece in the workspace.
__device__ __forceinline__ size_t piece_index(const PagedAttentionParams & p, const AttentionRun & run, int row,
                                              int piece) {
    return (size_t(run.token_of(row)) * p.n_head + run.head_of(row)) * p.n_splits + piece;
}

// Puts a block's piece of a run into the workspace: f(row, channel) is Σ weight · V of four channels; max and total by
// row.
template <typename Function>
__device__ __forceinline__ void store_piece(const PagedAttentionParams & p, const AttentionWorkspace & w,
                                            const AttentionRun & run, const float * max, const float * total,
                                            const Function & f) {
    const int dim = p.kv.head_dim_v;
    const int piece = int(blockIdx.x);
    for (int i = threadIdx.x; i < run.n_rows() * dim / 4; i += attention_threads) {
        const int row = i * 4 / dim;
        const int channel = i * 4 - row * dim;
        *reinterpret_cast<float4 *>(w.values + piece_index(p, run, row, piece) * dim + channel) = f(row, channel);
    }
    if (const int row = threadIdx.x; row < run.n_rows()) {
        w.max[piece_index(p, run, row, piece)] = max[row];
        w.total[piece_index(p, run, row, piece)] = total[row];
    }
}

// The pieces of a run become its result, in their order: bits do not depend on which block came last. power(x): what a
// weight is of a score of x. factors: [n_rows, n_pieces]; total: [n_rows]
template <typename Power>
__device__ __forceinline__ void merge_pieces(const PagedAttentionParams & p, const AttentionWorkspace & w,
                                             const AttentionRun & run, int n_pieces, const Power & power,
                                             float * factors, float * total) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int r = static_cast<int>(threadIdx.x) / 32; r < run.n_rows(); r += attention_warps) {
        const size_t first = piece_index(p, run, r, 0);
        float max = no_score;
        for (int i = lane; i < n_pieces; i += 32) {
            max = fmaxf(max, w.max[first + i]);
        }
        max = largest_of_warp(max);
        float sum = 0.0f;
        for (int i = lane; i < n_pieces; i += 32) {
            const float factor = power(w.max[first + i] - max);
            factors[r * n_pieces + i] = factor;
            sum += factor * w.total[first + i];
        }
        sum = sum_of_warp(sum);
        if (lane == 0) {
            total[r] = sum;
        }
    }
    __syncthreads();
    const int dim = p.kv.head_dim_v;
    store_results(p, run, [&](int row, int channel) {
        const float * values = w.values + piece_index(p, run, row, 0) * dim + channel;
        float4 sum{};
#pragma unroll 8
        for (int piece = 0; piece < n_pieces; piece++) {
            sum += factors[row * n_pieces + piece] * *reinterpret_cast<const float4 *>(values + int64_t(piece) * dim);
        }
        return sum / total[row];
    });
}

}  // namespace orin::cuda
