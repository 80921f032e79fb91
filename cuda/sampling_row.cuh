// What the kernels of sampling know of a row: its logits in chunks of blocks, as penalties, bias and mask leave them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../cpp/sampling/philox.h"
#include "../cpp/sampling/rank_key.h"
#include "../cpp/sampling/rule.h"
#include "sampling.h"

namespace orin::cuda {

// A chunk is the part of a row that a thread block has, a block the part of a chunk whose largest logit is kept.
constexpr int32_t block_size = 64;
constexpr int32_t chunk_blocks = 32;
constexpr int32_t chunk_size = block_size * chunk_blocks;
constexpr int32_t block_threads = 256;
constexpr int32_t n_warps = block_threads / 32;
constexpr int32_t warp_blocks = chunk_blocks / n_warps;  // blocks of a chunk that a warp has
constexpr uint32_t all_lanes = 0xFFFFFFFFu;

using Sum = unsigned long long;  // of weights

// The place of a token among all: ascending is from the likeliest down, equal ones by id.
using Rank = unsigned long long;

__device__ __forceinline__ Rank rank_of(uint32_t key, int32_t id) {
    return Rank{~key} << 32 | static_cast<uint32_t>(id);
}
__device__ __forceinline__ Rank rank_of(float logit, int32_t id) {
    return rank_of(sampling::rank_key(logit), id);
}
__device__ __forceinline__ int32_t id_of(Rank rank) {
    return static_cast<int32_t>(rank & 0xFFFFFFFFu);
}
__device__ __forceinline__ float logit_of(Rank rank) {
    return sampling::logit_of(~static_cast<uint32_t>(rank >> 32));
}

// The weights of a row by how far their tokens are below its top, in units of the filters' temperature.
constexpr int32_t n_histogram = 1024;

struct ChunkState {
    float changed[chunk_size];          // adjusted logits, only of blocks that something touches; -inf beyond the row
    uint32_t block_keys[chunk_blocks];  // of each block's largest adjusted logit; of a logit that is not valid, if any
    Sum sum;                            // of the draw weights
    uint32_t top_key;                   // the largest of block_keys
    uint32_t changed_blocks;            // a bit for each block
};

struct RowState {
    Sum histogram[n_histogram];
    uint32_t n_items;
    uint32_t n_arrived;  // thread blocks that have summed up their chunk
};

// The workspace holds RowState [n_rows], ChunkState [n_rows, n_chunks], items [n_rows, n_chunks * chunk_size].
struct Row {
    const float * logits;  // [n_vocab]
    int32_t n_vocab;
    int32_t n_chunks;
    const sampling::Lane * lane;
    RowState * state;
    ChunkState * chunks;  // [n_chunks]
    Rank * items;         // [state->n_items] tokens, in any order

    // The adjusted logit at a place of a block, 0 … block_size - 1.
    __device__ __forceinline__ float logit(const ChunkState & chunk, int32_t block, int32_t place) const {
        const int32_t in_chunk = block % chunk_blocks * block_size + place;
        if ((chunk.changed_blocks >> block % chunk_blocks & 1) != 0) {
            return chunk.changed[in_chunk];
        }
        const int32_t id = block * block_size + place;
        return id < n_vocab ? logits[id] : -INFINITY;
    }

    __device__ __forceinline__ uint32_t block_key(int32_t block) const {
        return chunks[block / chunk_blocks].block_keys[block % chunk_blocks];
    }

    __device__ __forceinline__ bool is_drawn() const { return lane->sequence >= 0; }
    __device__ __forceinline__ bool is_greedy() const { return lane->params.temperature == 0.0f; }
    __device__ __forceinline__ bool limits_count() const {
        return lane->params.top_k > 0 && lane->params.top_k < n_vocab;
    }
    __device__ __forceinline__ bool limits_sum() const { return lane->params.top_p < 1.0f; }

    // For a whole warp: the key of the row's largest adjusted logit.
    __device__ __forceinline__ uint32_t top_key() const {
        uint32_t largest = 0;
        for (int32_t i = static_cast<int32_t>(threadIdx.x % 32); i < n_chunks; i += 32) {
            largest = max(largest, chunks[i].top_key);
        }
        return __reduce_max_sync(all_lanes, largest);
    }
};

__host__ __device__ inline int32_t chunks_of(int32_t n_vocab) {
    return (n_vocab - 1) / chunk_size + 1;
}

__device__ __forceinline__ Row row_of(const SamplingParams & p, int32_t index) {
    const int32_t n_chunks = chunks_of(p.n_vocab);
    auto * states = static_cast<RowState *>(p.workspace);
    auto * chunks = reinterpret_cast<ChunkState *>(states + p.n_rows);
    auto * items = reinterpret_cast<Rank *>(chunks + int64_t(p.n_rows) * n_chunks);
    return {p.logits + index * p.row_stride,
            p.n_vocab,
            n_chunks,
            p.lanes + index,
            states + index,
            chunks + int64_t(index) * n_chunks,
            items + int64_t(index) * n_chunks * chunk_size};
}

// The filters and weights of a row.
struct Weights {
    float top;
    float filter_temperature;
    float temperature;
    uint32_t least;  // what min-p asks of the filters' weight

    __device__ __forceinline__ Weights(const Row & row, uint32_t top_key)
        : top(sampling::logit_of(top_key)),
          filter_temperature(sampling::filter_temperature(row.lane->params)),
          temperature(row.lane->params.temperature),
          least(sampling::least_weight(row.lane->params.min_p)) {}

    // What the exponential is taken of for the filters' weight: 0 for the top, lower for lower logits.
    __device__ __forceinline__ float argument(float logit) const {
        return sampling::quotient(logit - top, filter_temperature);
    }
    __device__ __forceinline__ uint32_t of_filter(float logit) const { return sampling::fixed_exp(argument(logit)); }
    // 0 where min-p does not let it pass.
    __device__ __forceinline__ uint32_t of_draw(float logit) const {
        const uint32_t weight = of_filter(logit);
        if (weight < least) {
            return 0;
        }
        return temperature == filter_temperature ? weight : sampling::weight_of(logit, top, temperature);
    }
    // Of a logit with this argument: a lower one never has a lower bucket.
    __device__ __forceinline__ static int32_t bucket(float argument) {
        constexpr float width = (n_histogram - 1) / -sampling::zero_weight_argument;
        return static_cast<int32_t>(fminf(-argument, -sampling::zero_weight_argument) * width);
    }
};

}  // namespace orin::cuda
