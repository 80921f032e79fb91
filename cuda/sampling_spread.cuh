// Second launch, of work only for rows that top-p alone limits: how much weight is how far below the top.
//
// Rows like these can have any number of candidates, and all multiprocessors look for them. top-k leaves so few that
// one thread block does the rest.
#pragma once

#include <device/launch.cuh>

#include "sampling_block.cuh"

namespace orin::cuda {

struct SpreadMemory {
    SplitSum sums[n_histogram];
};

// Calls use(logit, id) for the tokens of those of n blocks, at most 32, for whose largest logit `may_have` is true. A
// whole warp calls it, and its lanes call `use` together.
template <typename MayHave, typename Use>
__device__ void each_of_blocks(const Row & row, int32_t first_block, int32_t n, const MayHave & may_have,
                               const Use & use) {
    const int32_t lane = thread_index() % 32;
    const ChunkState & chunk = row.chunks[first_block / chunk_blocks];
    unsigned left =
        __ballot_sync(all_lanes, lane < n && may_have(sampling::logit_of(row.block_key(first_block + lane))));
    for (; left != 0; left &= left - 1) {
        const int32_t block = first_block + __ffs(static_cast<int>(left)) - 1;
        for (int32_t place = lane; place < block_size; place += 32) {
            use(row.logit(chunk, block, place), block * block_size + place);
        }
    }
}

// The same of the blocks of a chunk, shared among the warps.
template <typename MayHave, typename Use>
__device__ void each_of_chunk(const Row & row, int32_t chunk, const MayHave & may_have, const Use & use) {
    each_of_blocks(row, chunk * chunk_blocks + thread_index() / 32 * warp_blocks, warp_blocks, may_have, use);
}

// The same of all blocks.
template <typename MayHave, typename Use>
__device__ void each_of_row(const Row & row, const MayHave & may_have, const Use & use) {
    for (int32_t chunk = thread_index() / 32; chunk < row.n_chunks; chunk += n_warps) {
        each_of_blocks(row, chunk * chunk_blocks, chunk_blocks, may_have, use);
    }
}

__global__ void __launch_bounds__(block_threads) sampling_spread_kernel(SamplingParams p) {
    const Row row = row_of(p, static_cast<int32_t>(blockIdx.y));
    const uint32_t top_key = row.top_key();
    if (top_key == 0 || top_key >= sampling::first_invalid_key || row.lane->params.temperature == 0.0f) {
        return;
    }
    const Weights weights(row, top_key);
    if (weights.limits_count || !weights.limits_sum) {
        return;
    }
    auto & memory = *shared_memory<SpreadMemory>();
    for (int32_t i = thread_index(); i < n_histogram; i += block_threads) {
        memory.sums[i] = {0, 0};
    }
    __syncthreads();
    each_of_chunk(
        row, static_cast<int32_t>(blockIdx.x), [&](float top) { return weights.of_filter(top) > 0; },
        [&](float logit, int32_t) {
            const float argument = weights.argument(logit);
            const uint32_t weight = sampling::fixed_exp(argument);
            if (weight > 0) {
                memory.sums[Weights::bucket(argument)].add(weight);
            }
        });
    __syncthreads();
    for (int32_t i = thread_index(); i < n_histogram; i += block_threads) {
        const Sum sum = memory.sums[i].value();
        if (sum > 0) {
            atomicAdd(&row.state->histogram[i], sum);
        }
    }
}

}  // namespace orin::cuda
