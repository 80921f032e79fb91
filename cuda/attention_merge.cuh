// What becomes of a block's sums: the result, or a piece of it that the last block to arrive puts together.
#pragma once

#include <cuda_runtime.h>

#include "attention_tile.cuh"

namespace orin::cuda {

__device__ __forceinline__ float * attention_result(const PagedAttentionParams & p, const AttentionRun & run, int row) {
    return p.out + (int64_t(run.token_of(row)) * p.n_head + run.head_of(row)) * p.kv.head_dim_v;
}

// For tokens without a sequence.
__device__ __forceinline__ void write_zeros(const PagedAttentionParams & p, const AttentionRun & run) {
    float * out = attention_result(p, run, 0);
    for (int i = threadIdx.x; i < run.n_heads * p.kv.head_dim_v; i += attention_threads) {
        out[i] = 0.0f;
    }
}

// Calls f(row, channel, Σ over the parts) for all values. sums: [n_parts, max_rows, head_dim_v]
template <int max_rows, typename Function>
__device__ __forceinline__ void for_all_sums(int n_parts, int n_rows, int dim, const float * sums, const Function & f) {
    for (int i = threadIdx.x; i < n_rows * dim; i += attention_threads) {
        float sum = 0.0f;
        for (int part = 0; part < n_parts; part++) {
            sum += sums[part * max_rows * dim + i];
        }
        f(i / dim, i % dim, sum);
    }
}

// Index of a piece in the workspace.
__device__ __forceinline__ size_t piece_index(const PagedAttentionParams & p, const AttentionRun & run, int row,
                                              int piece) {
    return (size_t(run.token_of(row)) * p.n_head + run.head_of(row)) * p.n_splits + piece;
}

// Whether all other pieces of the run are in the workspace. is_last: a word of shared memory
__device__ __forceinline__ bool arrive_last(int32_t * arrived, int n_pieces, int * is_last) {
    __syncthreads();  // all of the block's piece is written
    if (threadIdx.x == 0) {
        __threadfence();
        *is_last = atomicAdd(arrived, 1) == n_pieces - 1;
        if (*is_last != 0) {
            *arrived = 0;  // for the next launch
        }
        __threadfence();
    }
    __syncthreads();
    return *is_last != 0;
}

// The pieces of a run become its result, in their order: bits do not depend on which block came last.
// factors: [n_rows, n_pieces]; total: [n_rows]
__device__ __forceinline__ void merge_pieces(const PagedAttentionParams & p, const AttentionWorkspace & w,
                                             const AttentionRun & run, int n_pieces, float * factors, float * total) {
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
            const float factor = expf(w.max[first + i] - max);
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
    for (int i = threadIdx.x; i < run.n_rows() * dim; i += attention_threads) {
        const int r = i / dim;
        const float * values = w.values + piece_index(p, run, r, 0) * dim + i % dim;
        float sum = 0.0f;
        for (int piece = 0; piece < n_pieces; piece++) {
            sum += factors[r * n_pieces + piece] * values[int64_t(piece) * dim];
        }
        attention_result(p, run, r)[i % dim] = sum / total[r];
    }
}

}  // namespace orin::cuda
