// First launch: reads the logits once, applies penalties, bias and mask, and keeps the largest of each block.
#pragma once

#include <device/intrinsics.cuh>
#include <device/launch.cuh>

#include "sampling_block.cuh"

namespace orin::cuda {

struct ScanMemory {
    float logits[chunk_size];
    uint32_t counts[chunk_size];  // of the recent tokens; only where one is
    uint32_t warp_keys[n_warps];
    uint32_t changed_blocks;
};

// Penalties, then bias, on the part of the row that begins at `first`. Both touch few tokens.
__device__ inline void change_tokens(ScanMemory & memory, const sampling::Lane & lane, const int32_t * recent,
                                     const sampling::Bias * bias, int32_t first) {
    const auto is_here = [=](int32_t token) { return token >= first && token - first < chunk_size; };
    const auto mark = [&](int32_t place) { atomicOr(&memory.changed_blocks, 1u << place / block_size); };
    if (sampling::has_penalties(lane.params)) {
        for (int32_t i = thread_index(); i < lane.n_recent; i += block_threads) {
            if (is_here(recent[i])) {
                memory.counts[recent[i] - first] = 0;
            }
        }
        __syncthreads();
        for (int32_t i = thread_index(); i < lane.n_recent; i += block_threads) {
            if (is_here(recent[i])) {
                atomicAdd(&memory.counts[recent[i] - first], 1u);
            }
        }
        __syncthreads();
        for (int32_t i = thread_index(); i < lane.n_recent; i += block_threads) {
            if (!is_here(recent[i])) {
                continue;
            }
            const int32_t place = recent[i] - first;
            const uint32_t count = atomicExch(&memory.counts[place], 0u);
            if (count != 0) {  // otherwise another place of the token in the list was its turn
                memory.logits[place] = sampling::penalized(memory.logits[place], count, lane.params);
                mark(place);
            }
        }
        __syncthreads();
    }
    for (int32_t i = thread_index(); i < lane.n_bias; i += block_threads) {
        const int32_t token = bias[i].token;
        if (!is_here(token) || (i > 0 && bias[i - 1].token == token)) {
            continue;  // the thread of a token's first bias adds them all, in their order
        }
        float logit = memory.logits[token - first];
        for (int32_t j = i; j < lane.n_bias && bias[j].token == token; ++j) {
            logit = sampling::biased(logit, bias[j].value);
        }
        memory.logits[token - first] = logit;
        mark(token - first);
    }
    __syncthreads();
}

// A warp has the logits of its blocks in registers: lane i those at places i and i + 32 of each. `raw`: for
// log-probabilities, so without the changes, and of rows that ask for them.
__global__ void __launch_bounds__(block_threads) sampling_scan_kernel(SamplingParams p, bool raw) {
    constexpr int32_t per_thread = chunk_size / block_threads;
    auto & memory = *shared_memory<ScanMemory>();
    const auto index = static_cast<int32_t>(blockIdx.y);
    const Row row = row_of(p, index);
    if (raw ? row.lane->n_logprobs < 0 : !row.is_drawn()) {
        return;
    }
    const auto chunk_index = static_cast<int32_t>(blockIdx.x);
    ChunkState & chunk = row.chunks[chunk_index];
    const int32_t first = chunk_index * chunk_size;
    const int32_t warp = thread_index() / 32;
    const int32_t lane = thread_index() % 32;
    const int32_t warp_first = warp * warp_blocks * block_size;  // in the chunk

    float logits[per_thread];
    uint32_t keys[per_thread];
#pragma unroll
    for (int32_t i = 0; i < per_thread; ++i) {
        const int32_t id = first + warp_first + i * 32 + lane;
        logits[i] = id < row.n_vocab ? load_streaming(row.logits + id) : -INFINITY;
        keys[i] = sampling::rank_key(logits[i]);
    }

    const bool is_masked = p.masks != nullptr && row.lane->is_masked != 0;
    const bool is_changed = !raw && (is_masked || row.lane->n_bias > 0 ||
                                     (row.lane->n_recent > 0 && sampling::has_penalties(row.lane->params)));
    if (is_changed) {
        if (thread_index() == 0) {
            memory.changed_blocks = 0;
        }
        for (int32_t i = 0; i < per_thread; ++i) {
            memory.logits[warp_first + i * 32 + lane] = logits[i];
        }
        __syncthreads();
        const int64_t sequence = row.lane->sequence;
        change_tokens(memory, *row.lane, p.recent + sequence * p.max_recent, p.bias + sequence * p.max_bias, first);
        const uint32_t * mask = p.masks + int64_t(index) * ((p.n_vocab + 31) / 32);
#pragma unroll
        for (int32_t i = 0; i < per_thread; ++i) {
            const int32_t place = warp_first + i * 32;
            float logit = memory.logits[place + lane];
            if (is_masked && first + place < row.n_vocab) {
                const uint32_t allowed = mask[(first + place) / 32];
                logit = (allowed >> lane & 1) != 0 ? logit : -INFINITY;
                if (allowed != ~0u && lane == 0) {
                    atomicOr(&memory.changed_blocks, 1u << place / block_size);
                }
            }
            logits[i] = logit;
            // What is not valid shows through whatever hides it.
            keys[i] = keys[i] < sampling::first_invalid_key ? sampling::rank_key(logit) : keys[i];
        }
        __syncthreads();
    }

    const uint32_t changed_blocks = is_changed ? memory.changed_blocks : 0;
    uint32_t warp_key = 0;
#pragma unroll
    for (int32_t i = 0; i < warp_blocks; ++i) {
        const int32_t block = warp * warp_blocks + i;
        const uint32_t key = __reduce_max_sync(all_lanes, max(keys[2 * i], keys[2 * i + 1]));
        warp_key = max(warp_key, key);
        if (lane == 0) {
            chunk.block_keys[block] = key;
        }
        if ((changed_blocks >> block & 1) != 0) {
            chunk.changed[block * block_size + lane] = logits[2 * i];
            chunk.changed[block * block_size + 32 + lane] = logits[2 * i + 1];
        }
    }
    if (lane == 0) {
        memory.warp_keys[warp] = warp_key;
    }
    __syncthreads();
    if (thread_index() == 0) {
        chunk.top_key = 0;
        for (int32_t i = 0; i < n_warps; ++i) {
            chunk.top_key = max(chunk.top_key, memory.warp_keys[i]);
        }
        chunk.changed_blocks = changed_blocks;
        chunk.sum = 0;
    }
    if (chunk_index == 0) {
        for (int32_t i = thread_index(); i < n_histogram; i += block_threads) {
            row.state->histogram[i] = 0;
        }
        if (thread_index() == 0) {
            row.state->n_items = 0;
            row.state->n_arrived = 0;
        }
    }
}

}  // namespace orin::cuda
