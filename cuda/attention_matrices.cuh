// How attention by matrix products is laid over a block's threads and shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "attention_forms.h"

namespace orin::cuda {

constexpr int matrix_rows = 16;      // of queries in a product, and positions that it sums over
constexpr int tile_batch = 4;        // rows that a thread has under way; in a tile it has a multiple of them
constexpr int attention_stages = 2;  // tiles that are copied or worked on at a time

// K or V of a tile: as they are stored, then as f16. Sizes in bytes.
struct TileLayout {
    bool is_quantized;        // else what is stored is f16
    int32_t word;             // that is copied at a time: 16, 8 or 4
    int32_t threads_per_row;  // that copy: a power of two, at least as many as a row has words
    int32_t stored_stride;    // from row to row as they are stored
    int32_t stride;           // from row to row of f16, an odd multiple of 16: eight rows meet all banks
};

// Same for all blocks of a launch.
struct MatrixShape {
    AttentionShape heads;
    TileLayout k;
    TileLayout v;
};

// `least`, doubled until it is n or more.
constexpr int32_t doubled_to(int32_t least, int32_t n) {
    while (least < n) {
        least *= 2;
    }
    return least;
}

// The largest of 16, 8 and 4 that all cells are aligned to, or 0. Cells of f16 are aligned to 16.
constexpr int32_t tile_word(KvType type, int64_t row_bytes) {
    return !is_quantized(type) || row_bytes % 16 == 0 ? 16 : row_bytes % 8 == 0 ? 8 : row_bytes % 4 == 0 ? 4 : 0;
}

// A head of a quantized type may begin within a word, and end within one: whole words are copied.
constexpr TileLayout tile_layout(KvType type, int32_t head_dim, int64_t row_bytes, int32_t tile) {
    TileLayout layout{};
    const int32_t least_threads = attention_threads * tile_batch / tile;
    const int32_t head_bytes = int32_t(kv_row_bytes(type, head_dim));
    layout.is_quantized = is_quantized(type);
    layout.word = tile_word(type, row_bytes);
    layout.stride = head_dim * 2 + 16;
    if (!layout.is_quantized) {
        layout.threads_per_row = doubled_to(least_threads, head_bytes / layout.word);
        layout.stored_stride = layout.stride;
        return layout;
    }
    const int32_t alignment = head_bytes & -head_bytes;
    const int32_t most_before = alignment < layout.word ? layout.word - alignment : 0;
    const int32_t n_words = divide_up(most_before + head_bytes, layout.word);
    layout.threads_per_row = doubled_to(least_threads, n_words);
    layout.stored_stride = divide_up(n_words * layout.word, 16) * 16;
    return layout;
}

// Offsets in bytes, multiples of 16. What a block needs while tiles go by, before and after it lie in the same place.
struct MatrixMemory {
    int cells;         // [stages, tile]: integers
    int query_factor;  // [max rows]: what products of a row are multiplied by to be scores
    int warp_max;      // [warps, 16]
    int warp_total;    // [warps, 16]
    int row_max;       // [max rows]
    int row_total;     // [max rows]
    int stage;         // K as it is stored, then V
    int stage_bytes;   // from stage to stage
    int stored_v;      // from the beginning of a stage
    int keys;          // f16 of a quantized type
    int values;
    int queries;  // f16 [max rows, query_stride]
    int query_stride;
    int sums;     // [warps, 16, sum_stride]: floats
    int factors;  // [max rows, pieces]: floats
    int end;

    // Four rows of eight bytes by four threads meet all banks.
    __host__ __device__ static constexpr int sum_stride(int head_dim_v) { return head_dim_v + 8; }

    // keeps_queries: in registers, so that their memory is the second stage's once they are read.
    __host__ __device__ static constexpr MatrixMemory of(const MatrixShape & shape, const PagedKv & kv, int n_splits,
                                                         bool keeps_queries) {
        const int tile = shape.heads.tile;
        const int max_rows = divide_up(shape.heads.max_rows, matrix_rows) * matrix_rows;
        MatrixMemory at{};
        at.query_factor = attention_stages * tile * 4;
        at.warp_max = at.query_factor + attention_matrices_rows * 4;
        at.warp_total = at.warp_max + attention_matrices_rows * 4;
        at.row_max = at.warp_total + attention_matrices_rows * 4;
        at.row_total = at.row_max + attention_matrices_rows * 4;
        at.stage = at.row_total + attention_matrices_rows * 4;
        at.stored_v = tile * shape.k.stored_stride;
        at.stage_bytes = at.stored_v + tile * shape.v.stored_stride;
        at.keys = at.stage + attention_stages * at.stage_bytes;
        at.values = at.keys + (shape.k.is_quantized ? tile * shape.k.stride : 0);
        const int end_of_tiles = at.values + (shape.v.is_quantized ? tile * shape.v.stride : 0);
        at.query_stride = kv.head_dim_k * 2 + 16;
        at.queries = keeps_queries ? at.stage + at.stage_bytes : end_of_tiles;
        at.sums = at.stage;
        at.factors = at.stage;
        const int ends[] = {end_of_tiles, at.queries + max_rows * at.query_stride,
                            at.sums + attention_matrices_rows * sum_stride(kv.head_dim_v) * 4,
                            at.factors + max_rows * n_splits * 4};
        for (const int end : ends) {
            at.end = end > at.end ? end : at.end;
        }
        return at;
    }
};

}  // namespace orin::cuda
