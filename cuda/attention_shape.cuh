// How a step's attention is laid over blocks, and a block's shared memory over what it works with.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "divide_up.h"
#include "paged_attention.h"
#include "shared_limits.h"

namespace orin::cuda {

constexpr int attention_threads = 128;
constexpr int attention_warps = attention_threads / 32;

// Same for all blocks of a launch.
struct AttentionShape {
    int32_t heads_per_block;  // of the heads that share a KV head
    int32_t n_head_blocks;    // blocks for a KV head's heads
    int32_t max_rows;         // heads times tokens, rounded up to a power of two
    int32_t tile;             // positions that are worked on together: a power of two, at most 32
    int32_t k_head_bytes;
    int32_t v_head_bytes;
};

// The tile is for the kernel to choose. most_rows: heads times tokens that a block can have
inline AttentionShape attention_shape(const PagedAttentionParams & p, int32_t most_rows) {
    const int32_t group = p.n_head / p.kv.n_head_kv;
    AttentionShape shape{};
    shape.heads_per_block = divide_up(group, divide_up(group, most_rows));
    shape.n_head_blocks = divide_up(group, shape.heads_per_block);
    shape.max_rows = 1;
    while (shape.max_rows < shape.heads_per_block * p.tokens_per_block) {
        shape.max_rows *= 2;
    }
    shape.k_head_bytes = int32_t(kv_row_bytes(p.kv.k_type, p.kv.head_dim_k));
    shape.v_head_bytes = int32_t(kv_row_bytes(p.kv.v_type, p.kv.head_dim_v));
    return shape;
}

// Offsets in floats, each a multiple of 4. What is needed while tiles go by, and what is needed after it, lie in the
// same place.
struct AttentionMemory {
    int q;         // [max_rows, head_dim_k]
    int max;       // [max_rows]
    int total;     // [max_rows]
    int rescale;   // [max_rows]
    int cells;     // [tile]: integers
    int keys;      // [tile, key_stride]
    int values;    // [tile, head_dim_v]
    int products;  // [attention_threads / tile, max_rows, tile]: parts of q·K
    int weights;   // [tile, max_rows]
    int sums;      // [parts, max_rows, head_dim_v]: as many parts as there are threads for
    int factors;   // [max_rows, n_pieces]
    int end;

    // Four more than a row has: eight threads that read 16 bytes of neighbouring rows meet all banks.
    __host__ __device__ static constexpr int key_stride(int head_dim_k) { return head_dim_k + 4; }

    __host__ __device__ static constexpr AttentionMemory of(int max_rows, int tile, int head_dim_k, int head_dim_v) {
        AttentionMemory at{};
        const int rows = (max_rows + 3) / 4 * 4;
        at.max = max_rows * head_dim_k;
        at.total = at.max + rows;
        at.rescale = at.total + rows;
        at.cells = at.rescale + rows;
        at.keys = at.cells + (tile + 3) / 4 * 4;
        at.values = at.keys + tile * key_stride(head_dim_k);
        at.products = at.values + tile * head_dim_v;
        at.weights = at.products + attention_threads * max_rows;
        at.sums = at.keys;
        at.factors = at.keys;
        const int end_of_tiles = at.weights + tile * max_rows;
        // (attention_threads / (head_dim_v / 4)) · head_dim_v is at most 4 · attention_threads.
        const int end_of_sums = at.sums + max_rows * 4 * attention_threads;
        at.end = end_of_tiles > end_of_sums ? end_of_tiles : end_of_sums;
        return at;
    }
};
static_assert(attention_max_splits <= 4 * attention_threads, "factors are no longer than sums");

constexpr int attention_min_tile = 8;
constexpr int attention_max_tile = 32;

// The largest tile for which several blocks fit a multiprocessor.
inline int attention_tile(int max_rows, int head_dim_k, int head_dim_v) {
    int tile = attention_max_tile;
    while (tile > attention_min_tile &&
           AttentionMemory::of(max_rows, tile, head_dim_k, head_dim_v).end * sizeof(float) > free_shared_bytes) {
        tile /= 2;
    }
    return tile;
}

// What blocks that share a context leave for the one that arrives last.
struct AttentionWorkspace {
    float * values;  // [n_tokens, n_head, n_splits, head_dim_v]: Σ weight · V
    float * max;     // [n_tokens, n_head, n_splits]: of the scores
    float * total;   // [n_tokens, n_head, n_splits]: sum of weights, relative to that of max

    __host__ __device__ static size_t n_pieces(const PagedAttentionParams & p) {
        return size_t(p.n_tokens) * p.n_head * p.n_splits;
    }
    __host__ __device__ static AttentionWorkspace of(const PagedAttentionParams & p) {
        const size_t n = n_pieces(p);
        float * max = p.workspace + n * p.kv.head_dim_v;
        return {p.workspace, max, max + n};
    }
};

}  // namespace orin::cuda
