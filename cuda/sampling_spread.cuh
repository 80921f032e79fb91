// Second launch, of work only for rows that top-p alone limits: how much weight is how far below the top.
//
// Rows like these can have any number of candidates, and all multiprocessors look for them. top-k leaves so few that
// one thread block does the rest.
#pragma once

#include <device/launch.cuh>

#include "sampling_gather.cuh"

namespace orin::cuda {

struct SpreadMemory {
    SplitSum sums[n_histogram];
};

__global__ void __launch_bounds__(block_threads) sampling_spread_kernel(SamplingParams p) {
    const Row row = row_of(p, static_cast<int32_t>(blockIdx.y));
    if (!row.is_drawn() || row.is_greedy() || row.limits_count() || !row.limits_sum()) {
        return;
    }
    const uint32_t top_key = row.top_key();
    if (top_key == 0 || top_key >= sampling::first_invalid_key) {
        return;
    }
    const Weights weights(row, top_key);
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
